// Names of collectives and of element types as PyTorch writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/program/op_work.hpp"

namespace sim {

// collective_name: "allreduce", "_allgather_base", ... as curves name it; "send_receive": a
// message; empty: unknown.
std::string collective_name(std::string_view torch);

// The same as a kind; empty: a message, or unknown. Also "barrier".
std::optional<CollectiveKind> collective_kind(std::string_view torch);

// The operation of a span in which a library of the host communicates: "gloo:all_reduce" is
// "all_reduce". Empty: it is no such span.
std::string_view operation_of_backend(std::string_view span);

// Bytes of an element by NCCL's or C++'s name of its type; 0: unknown.
int element_bytes(std::string_view dtype);

// The type of a product's operand: "c10::BFloat16", "Half", ...
std::optional<DType> dtype_of(std::string_view type);

}  // namespace sim
