// Names of communicators and their options: megatron/core/parallel_state.py, get_nccl_options().
#include "sim/interop/megatron/nccl_options.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace sim {
namespace {

struct Communicator {
  const char* name;
  int BlockLimits::*member;
};
// Gradients go over dp_cp, which is dp where no sequence is shared.
constexpr std::array communicators{
    Communicator{"tp", &BlockLimits::tensor},  Communicator{"cp", &BlockLimits::context},
    Communicator{"ep", &BlockLimits::expert},  Communicator{"dp", &BlockLimits::data},
    Communicator{"dp_cp", &BlockLimits::data}, Communicator{"pp", &BlockLimits::pipeline},
};

}  // namespace

void read_nccl_options(const std::string& path, const std::string& setting, Imported& result) {
  if (!std::filesystem::exists(path)) {
    result.notes.push_back({setting, fmt::format("{} is not here: NCCL's own number of thread "
                                                 "blocks is forecast; see simulation.most_blocks",
                                                 path)});
    return;
  }
  const Document file = Document::load(path, Syntax::yaml);
  const ObjectReader root = file.root_object();
  bool least = false;
  for (const Communicator& communicator : communicators) {
    if (!root.has(communicator.name)) continue;
    const ObjectReader options = root.object(communicator.name);
    const auto most = options.integer_or("max_ctas", 0, {0, most_nccl_blocks});
    least = least || options.integer_or("min_ctas", 0, {0, most_nccl_blocks}) > 1;
    options.ignore_unknown();
    result.most_blocks.*communicator.member = static_cast<int>(most);
  }
  root.ignore_unknown();
  file.finish();
  if (least)
    result.notes.push_back({setting,
                            "min_ctas is above 1: as many thread blocks as NCCL takes by "
                            "itself are forecast"});
}

}  // namespace sim
