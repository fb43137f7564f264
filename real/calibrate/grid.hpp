// Shapes beside those of the given scenarios, as programs of a single layer: they carry products,
// attention, norms, activations, embedding, loss and optimizer in the sizes that go together.
#pragma once

#include <vector>

#include "sim/base/dtype.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

namespace real {

struct GridProgram {
  sim::Model model;
  sim::Plan plan;
};

struct GridPoint {
  int hidden = 0;
  int sequence = 0;
  int micro_batch = 1;
};
// For float32 on a core: what a training step of some milliseconds is made of. For a GPU: GPT-2
// 124M up to the layers of a model of 7 billion parameters.
std::vector<GridPoint> grid_points(sim::DType dtype);
GridProgram grid_program(const GridPoint& point, sim::DType dtype);

}  // namespace real
