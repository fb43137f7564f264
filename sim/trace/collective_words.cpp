#include "sim/trace/collective_words.hpp"

#include <array>
#include <utility>

namespace sim {

std::string collective_name(std::string_view torch) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 20> names{
      {{"allreduce", "all_reduce"},
       {"all_reduce", "all_reduce"},
       {"allreduce_coalesced", "all_reduce"},
       {"_allgather_base", "all_gather"},
       {"all_gather", "all_gather"},
       {"allgather", "all_gather"},
       {"allgather_into_tensor_coalesced", "all_gather"},
       {"_reduce_scatter_base", "reduce_scatter"},
       {"reduce_scatter", "reduce_scatter"},
       {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
       {"broadcast", "broadcast"},
       {"_broadcast_oop", "broadcast"},
       {"reduce", "reduce"},
       {"_reduce_oop", "reduce"},
       {"all_to_all", "all_to_all"},
       {"all_to_allv", "all_to_all"},
       {"alltoall_base", "all_to_all"},
       {"alltoall", "all_to_all"},
       {"send", "send_receive"},
       {"recv", "send_receive"}}};
  for (const auto& [name, ours] : names)
    if (name == torch) return std::string{ours};
  return {};
}

std::optional<CollectiveKind> collective_kind(std::string_view torch) {
  if (torch == "barrier") return CollectiveKind::barrier;
  const std::string name = collective_name(torch);
  for (const auto& known : words_of(CollectiveKind{}))
    if (known.text == name) return known.value;
  return std::nullopt;
}

std::optional<DType> dtype_of(std::string_view type) {
  if (type == "c10::BFloat16" || type == "BFloat16") return DType::bf16;
  if (type == "c10::Half" || type == "Half") return DType::fp16;
  if (type == "float" || type == "Float") return DType::fp32;
  if (type.find("Float8") != std::string_view::npos) return DType::fp8;
  return std::nullopt;
}

std::string_view operation_of_backend(std::string_view span) {
  for (const std::string_view backend : {"gloo:", "mpi:"})
    if (span.starts_with(backend)) return span.substr(backend.size());
  return {};
}

int element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, int>, 12> others{{{"Double", 8},
                                                                     {"double", 8},
                                                                     {"Long", 8},
                                                                     {"long int", 8},
                                                                     {"Int", 4},
                                                                     {"int", 4},
                                                                     {"Short", 2},
                                                                     {"short int", 2},
                                                                     {"Byte", 1},
                                                                     {"Char", 1},
                                                                     {"Bool", 1},
                                                                     {"bool", 1}}};
  if (const auto known = dtype_of(dtype)) return bytes_of(*known);
  for (const auto& [name, bytes] : others)
    if (name == dtype) return bytes;
  return dtype == "unsigned char" || dtype == "signed char" ? 1 : 0;
}

}  // namespace sim
