// PYTORCH_CUDA_ALLOC_CONF of a launch script: how PyTorch's allocator splits its blocks.
#pragma once

#include <string>

#include "sim/interop/handover.hpp"

namespace sim {

// The name under which the reader of scripts hands the variable on.
inline constexpr const char* allocator_conf_flag = "--pytorch-cuda-alloc-conf";

// Into the framework of `result`; what is not modelled becomes a note.
void read_allocator_conf(const ObjectReader& root, Imported& result);

// The line of a script that sets it; empty where nothing is asked for.
std::string allocator_conf_line(const Execution& runs);

}  // namespace sim
