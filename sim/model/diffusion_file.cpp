// The key `diffusion_transformer` of a model file (models/FORMAT.md).
#include <fmt/format.h>

#include "sim/config/reader.hpp"
#include "sim/model/diffusion.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

namespace limits = transformer_limits;

DiffusionShape read_shape_of_diffusion(const ObjectReader& in) {
  const IntegerRange layers{.min = 0, .max = limits::layers}, width{.min = 1, .max = limits::hidden},
      pixels{.min = 1, .max = limits::pixels};
  DiffusionShape shape;
  shape.family = in.text_or("family", "mmdit");
  shape.double_layers = in.integer("double_layers", layers);
  shape.single_layers = in.integer("single_layers", layers);
  shape.hidden = in.integer("hidden", width);
  shape.heads = in.integer("heads", {.min = 1, .max = limits::heads});
  shape.feed_forward = in.integer("feed_forward", {.min = 1, .max = limits::feed_forward});
  const ObjectReader image = in.object("image");
  shape.image_size = image.integer("size", pixels);
  shape.patch = image.integer("patch", pixels);
  shape.channels = image.integer("channels", width);
  const ObjectReader text = in.object("text");
  shape.text_tokens = text.integer("tokens", {.min = 1, .max = limits::rows});
  shape.text_width = text.integer("width", width);
  shape.vector_width = in.integer("vector", width);
  shape.timestep_width = in.integer_or("timestep", 256, width);
  shape.guidance = in.boolean_or("guidance", false);
  if (shape.double_layers + shape.single_layers == 0)
    in.problem("double_layers", "a diffusion transformer has one block or more");
  if (shape.hidden % shape.heads != 0)
    in.problem("heads", fmt::format("heads is {}, which does not divide hidden {}", shape.heads,
                                    shape.hidden));
  if (shape.image_size % shape.patch != 0)
    image.problem("patch", fmt::format("patch is {}, which does not divide the image's size {}",
                                       shape.patch, shape.image_size));
  return shape;
}

}  // namespace

Model read_diffusion(const Document& document) {
  const ObjectReader root = document.root_object();
  const std::string name = root.text_or("name", name_from_path(document.name()));
  const std::string source = root.text("source");
  DiffusionShape shape = read_shape_of_diffusion(root.object("diffusion_transformer"));
  shape.name = name;
  shape.source = source;
  document.finish();
  return build_diffusion(shape);
}

}  // namespace sim
