#include "real/engine/support.hpp"
#include "real/host/host_backend.hpp"

namespace real {
namespace {

struct Format {
  const char* key;
  sim::DType dtype;
};

}  // namespace

std::vector<std::string> host_problems(const sim::Plan& plan, const sim::Model& /*model*/) {
  const sim::Layout& layout = plan.layout;
  std::vector<std::string> problems;
  for (const Format& format : {Format{"compute_dtype", layout.compute_dtype},
                               Format{"activation_dtype", layout.activation_dtype},
                               Format{"gradient_dtype", layout.gradient_dtype},
                               Format{"reduce_dtype", layout.reduce_dtype}}) {
    // What is cast for GEMMs: engine_problems().
    if (format.dtype == sim::DType::fp32 || sim::is_quantized(format.dtype)) continue;
    problems.push_back(
        refusal(BackendName::host, Feature::formats, format.key, word(format.dtype)));
  }
  return problems;
}

}  // namespace real
