#include "real/calibrate/grid.hpp"

#include <fmt/format.h>

#include "sim/model/transformer.hpp"

namespace real {

std::vector<GridPoint> grid_points(sim::DType dtype) {
  if (dtype == sim::DType::fp32)
    return {{.hidden = 64, .sequence = 64, .micro_batch = 2},
            {.hidden = 128, .sequence = 128},
            {.hidden = 256, .sequence = 128, .micro_batch = 2},
            {.hidden = 512, .sequence = 256}};
  return {{.hidden = 512, .sequence = 512, .micro_batch = 2},
          {.hidden = 768, .sequence = 1024, .micro_batch = 4},
          {.hidden = 1024, .sequence = 1024, .micro_batch = 2},
          {.hidden = 1536, .sequence = 1024, .micro_batch = 4},
          {.hidden = 2048, .sequence = 2048},
          {.hidden = 4096, .sequence = 2048}};
}

GridProgram grid_program(const GridPoint& point, sim::DType dtype) {
  const bool small = dtype == sim::DType::fp32;
  sim::TransformerShape shape;
  shape.name = fmt::format("grid-{}", point.hidden);
  shape.family = "grid";
  shape.source = "shapes to calibrate on";
  shape.layers = 1;
  shape.hidden = point.hidden;
  shape.head_dim = small ? 32 : 64;
  shape.heads = point.hidden / shape.head_dim;
  shape.kv_heads = shape.heads;
  shape.feed_forward = 4 * shape.hidden;
  shape.vocabulary = small ? 256 : 32'768;
  shape.positions = sim::Positions::rotary;
  shape.norm = sim::NormKind::rms;
  shape.activation = point.hidden % 512 == 0 ? sim::Activation::swiglu : sim::Activation::gelu;
  sim::Layout layout;
  layout.sequence_length = point.sequence;
  layout.global_batch = layout.micro_batch = point.micro_batch;
  layout.compute_dtype = layout.activation_dtype = dtype;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  layout.master_weights = !small;
  GridProgram program{.model = sim::build_transformer(shape), .plan = {}};
  program.plan = sim::make_plan(program.model, layout);
  return program;
}

}  // namespace real
