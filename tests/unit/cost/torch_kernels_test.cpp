// PyTorch's kernels as others measured them, against the passes that sim/model counts for them and
// the rates of the device files.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "sim/framework/framework.hpp"
#include "sim/model/transformer.hpp"
#include "sim/rows/csv.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/cost/round_device.hpp"

namespace sim {
namespace {

struct Row {
  std::string device, kernel, part;
  std::int64_t rows = 0, width = 0;
  double element = 2;  // bytes
  double ms = 0;
};

std::vector<Row> measured() {
  const CsvTable table = CsvTable::load(sim::test::source_dir() +
                                        "/topologies/devices/measurements/torch_kernels.csv");
  std::vector<Row> rows;
  for (std::size_t i = 0; i < table.records().size(); ++i) {
    const auto cell = [&](const char* column) { return table.field(i, column).text; };
    rows.push_back({cell("device"), cell("kernel"), cell("part"), std::stoll(cell("rows")),
                    std::stoll(cell("width")), cell("dtype") == "fp32" ? 4.0 : 2.0,
                    std::stod(cell("ms"))});
  }
  return rows;
}

const ModelOp& last_of(const Model& model, const std::vector<Function>& functions) {
  const ModelOp* found = nullptr;
  for (const Block* block : {&model.layers[0], &model.output})
    for (const ModelOp& op : block->ops)
      if (std::find(functions.begin(), functions.end(), op.function) != functions.end())
        found = &op;
  REQUIRE(found != nullptr);
  return *found;
}

ModelOp operator_of(const Row& row) {
  TransformerShape shape;
  shape.layers = 1;
  shape.hidden = row.width;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.head_dim = row.width / 32;
  shape.feed_forward = 1024;
  shape.vocabulary = row.width;
  shape.positions = Positions::rotary;
  shape.norm = row.kernel == "layer_norm" ? NormKind::layer : NormKind::rms;
  Framework framework = framework_of(FrameworkName::pytorch);
  framework.key_heads = KernelForm::fused;
  if (row.kernel == "rms_norm_compiled") framework.rms_norm = NormForm::compiled;
  Model model = build_transformer(shape);
  run_with(framework, model);
  if (row.kernel == "rotary") return last_of(model, {Function::rotary});
  if (row.kernel != "cross_entropy")
    return last_of(model, {Function::rms_norm, Function::layer_norm});
  // fp32 logits need no cast; the gradient is added to the one before.
  ModelOp loss = last_of(model, {Function::cross_entropy});
  const auto classes = static_cast<double>(row.width);
  loss.forward_elements -= 3 * classes;
  loss.backward_elements += (6 - 3) * classes;
  return loss;
}

double forecast_ms(const Row& row, const Device& device) {
  const ModelOp op = operator_of(row);
  const bool backward = row.part == "backward";
  const double element = row.kernel == "cross_entropy" ? 2 : row.element;  // counts fp32 twice
  const auto bytes = [&](double elements) {
    return Bytes{std::llround(elements * element * static_cast<double>(row.rows))};
  };
  Kernel kernel;
  kernel.kind = row.kernel == "rotary"          ? OpKind::elementwise
                : row.kernel == "cross_entropy" ? OpKind::cross_entropy
                                                : OpKind::norm;
  kernel.part = backward ? AttentionPart::backward : AttentionPart::forward;
  kernel.bytes = bytes(backward ? op.backward_elements : op.forward_elements);
  kernel.beside = bytes(backward ? op.backward_beside : op.forward_beside);
  kernel.strided = bytes(backward ? op.backward_strided : op.forward_strided);
  kernel.launches = backward ? op.backward_launches : op.forward_launches;
  return to_seconds(kernel_cost(kernel, device).time) * 1e3;
}

}  // namespace

// LayerNorm is measured in fp32, whose kernels move a fifth less per second on the A100 than the
// device file has for 16 bits; the passes are a compromise between the devices.
TEST_CASE("PyTorch's kernels take what was measured of them elsewhere", "[cost]") {
  std::set<std::string> kernels;
  for (const Row& row : measured()) {
    if (row.device == "h100_nvl") continue;  // no device file
    const Device device =
        load_device(sim::test::source_dir() + "/topologies/devices/" + row.device + ".yaml");
    const double error = forecast_ms(row, device) / row.ms - 1;
    INFO(row.device << ' ' << row.kernel << ' ' << row.part << ' ' << row.width << ": " << error);
    CHECK(std::abs(error) < (row.kernel == "layer_norm" ? 0.2 : 0.11));
    kernels.insert(row.kernel);
  }
  CHECK(kernels.size() == 5);
}

}  // namespace sim
