// Derives the figures of models/resnet50.yaml from the architecture (He et al. 2016, table 1,
// stride in the 3 x 3 convolution).
#include "sim/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

struct Expected {
  double parameters = 0;
  double forward_flops = 0;
  double saved = 0;
  double forward_traffic = 0;
  double backward_traffic = 0;
};

struct Convolution {
  double in_channels, out_channels, kernel, in_size, out_size;
  double input() const { return in_channels * in_size * in_size; }
  double output() const { return out_channels * out_size * out_size; }
};

Expected convolution(const Convolution& c, bool saves_input) {
  const double taps = c.in_channels * c.kernel * c.kernel;
  Expected e;
  e.parameters = taps * c.out_channels;
  e.forward_flops = 2 * taps * c.output();
  e.saved = saves_input ? c.input() : 0;
  e.forward_traffic = c.input() + c.output();
  e.backward_traffic = 2 * e.forward_traffic;
  return e;
}

// Batch norm and ReLU in place, each a kernel of eager PyTorch.
Expected batch_norm(const Convolution& c, bool relu) {
  const double n = c.output();
  Expected e;
  e.parameters = 2 * c.out_channels;
  e.saved = n;
  e.forward_traffic = 3 * n + (relu ? 2 * n : 0);
  e.backward_traffic = 5 * n + (relu ? 3 * n : 0);
  return e;
}

std::vector<Expected> bottleneck(double in, double width, double size, double stride, bool first) {
  const double small = size / stride;
  std::vector<Expected> ops;
  const auto add = [&](const Convolution& c, bool saves_input, bool relu) {
    ops.push_back(convolution(c, saves_input));
    ops.push_back(batch_norm(c, relu));
  };
  add({in, width, 1, size, size}, true, true);
  ops.back().backward_traffic += 3 * in * size * size;  // the two branches' gradients are added
  add({width, width, 3, size, small}, true, true);
  if (first) add({in, 4 * width, 1, size, small}, false, false);
  add({width, 4 * width, 1, small, small}, true, true);
  ops.back().forward_traffic += 3 * 4 * width * small * small;  // the residual sum
  return ops;
}

std::vector<std::vector<Expected>> residual_blocks() {
  std::vector<std::vector<Expected>> blocks;
  const std::array<int, 4> depth{3, 4, 6, 3};
  double in = 64;
  double size = 56;
  double width = 64;
  for (std::size_t stage = 0; stage < depth.size(); ++stage, width *= 2) {
    for (int i = 0; i < depth[stage]; ++i) {
      const double stride = stage > 0 && i == 0 ? 2 : 1;
      blocks.push_back(bottleneck(in, width, size, stride, i == 0));
      size /= stride;
      in = 4 * width;
    }
  }
  return blocks;
}

Model resnet50() {
  return load_model(sim::test::source_dir() + "/models/resnet50.yaml");
}

}  // namespace

TEST_CASE("ResNet-50 has its published parameters and FLOPs", "[model]") {
  const Model model = resnet50();
  REQUIRE(model.is_layer_list);
  REQUIRE(model.parameters() == 25'557'032);
  // 4.09 GMAC, two operations each.
  REQUIRE(forward_flops(model, 1).count() == 2.0 * 4'089'184'256);
}

TEST_CASE("every residual block of ResNet-50 follows from its convolutions", "[model]") {
  const Model model = resnet50();
  const auto blocks = residual_blocks();
  REQUIRE(model.layers.size() == blocks.size() + 2);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = model.layers[i + 1];
    CAPTURE(block.name);
    REQUIRE(block.ops.size() == blocks[i].size());
    for (std::size_t k = 0; k < block.ops.size(); ++k) {
      const ModelOp& op = block.ops[k];
      const Expected& expected = blocks[i][k];
      CAPTURE(op.name);
      REQUIRE(static_cast<double>(op.weights) == expected.parameters);
      REQUIRE(op.forward_flops.count() == expected.forward_flops);
      REQUIRE(op.backward_flops.count() == 2 * expected.forward_flops);
      REQUIRE(op.saved_elements == expected.saved);
      REQUIRE(op.forward_elements == expected.forward_traffic);
      REQUIRE(op.backward_elements == expected.backward_traffic);
    }
  }
}

TEST_CASE("the stem and the classifier of ResNet-50 follow from their shapes", "[model]") {
  const Model model = resnet50();
  const Block& stem = model.layers.front();
  const Convolution shape{3, 64, 7, 224, 112};
  const Expected conv = convolution(shape, true);
  REQUIRE(static_cast<double>(stem.ops[0].weights) == conv.parameters);
  REQUIRE(stem.ops[0].forward_flops.count() == conv.forward_flops);
  // No gradient with respect to the image: one product backward, not two.
  REQUIRE(stem.ops[0].backward_flops.count() == conv.forward_flops);
  REQUIRE(stem.ops[0].backward_elements == conv.forward_traffic);
  REQUIRE(stem.ops[0].saved_elements == conv.saved);
  REQUIRE(static_cast<double>(stem.ops[1].weights) == batch_norm(shape, true).parameters);
  REQUIRE(stem.ops[1].backward_elements == batch_norm(shape, true).backward_traffic);
  const double pool_in = 64.0 * 112 * 112;
  const double pool_out = 64.0 * 56 * 56;
  REQUIRE(stem.ops[2].saved_elements == pool_in);
  REQUIRE(stem.ops[2].saved_fixed_bytes == 8 * pool_out);
  REQUIRE(stem.output_elements == 64 * 56 * 56);
  const ModelOp& classifier = model.layers.back().ops[0];
  REQUIRE(classifier.weights == 2'048 * 1'000 + 1'000);
  REQUIRE(classifier.forward_flops.count() == 2.0 * 2'048 * 1'000);
  REQUIRE(classifier.saved_elements == 49 * 2'048 + 2'048);
}
