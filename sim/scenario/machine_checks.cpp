#include "sim/scenario/machine_checks.hpp"

#include <fmt/format.h>

#include "sim/plan/plan.hpp"

namespace sim {
namespace {

constexpr const char* no_path = "a path from each GPU to a socket (node.pcie)";

void check_attention(const Layout& layout, const Device& device, const Layered& section) {
  if (!is_flash(layout.attention) || device.attention_model(layout.attention)) return;
  const bool first = layout.attention == AttentionKernel::flash_1;
  section.problem(
      "attention",
      fmt::format("the file of the {} has no rates of {}; flash takes {}", device.name,
                  first ? "FlashAttention 1" : "FlashAttention-2", device.attention.kernels));
}

void check_eight_bit_attention(const Model& model, const Device& device, const Layered& section) {
  const Execution& runs = model.execution;
  if (runs.eight_bit_attention == EightBitAttention::none) return;
  const bool micro = runs.eight_bit == EightBit::transformer_engine_mxfp8;
  if (micro ? device.attention.mxfp8.has_value() : device.attention.fp8.has_value()) return;
  section.problem("fp8_attention", fmt::format("the file of the {} has no rates of attention in {}",
                                               device.name, micro ? "mxfp8" : "fp8"));
}

void check_formats(const Layout& layout, const Device& device, const Layered& section) {
  const auto check = [&](const char* key, DType dtype) {
    if (device.gemm_model(dtype)) return;
    section.problem(key, fmt::format("{} is {}, in which the {} cannot compute; allowed: {}", key,
                                     word(dtype), device.name, device.gemm_formats()));
  };
  check("compute_dtype", layout.compute_dtype);
  if (layout.activation_dtype != layout.compute_dtype)
    check("activation_dtype", layout.activation_dtype);
}

// check_mxfp8_support of Transformer Engine (pytorch/quantization.py): compute capability 10;
// torchao asks for the same (prototype/mx_formats). AMD's: gfx950, which is CDNA 4.
void check_micro_scaling(const Layout& layout, const Model& model, const Device& device,
                         const Layered& section) {
  const std::string_view allowed = formats_without_mxfp8(layout, model.execution, device);
  if (allowed.empty()) return;
  section.problem(
      "fp8",
      fmt::format("fp8 {} is MXFP8, which needs Blackwell (compute capability 10) or CDNA "
                  "4; the {} is of {}; allowed: {}",
                  word(model.execution.eight_bit), device.name, word(device.generation), allowed));
}

}  // namespace

std::string_view formats_without_mxfp8(const Layout& layout, const Execution& runs,
                                       const Device& device) {
  const bool transformer_engine = runs.eight_bit == EightBit::transformer_engine_mxfp8;
  if (layout.compute_dtype != DType::fp8) return {};
  if (!transformer_engine && runs.eight_bit != EightBit::torchao_mxfp8) return {};
  if (device.generation == Generation::blackwell || device.generation == Generation::cdna4)
    return {};
  return transformer_engine
             ? "transformer_engine, transformer_engine_tensorwise, transformer_engine_blockwise"
             : "torchao, torchao_rowwise";
}

void check_kernels(const Layout& layout, const Model& model, const Device& device,
                   const Layered& top) {
  check_formats(layout, device, top.section("layout"));
  check_attention(layout, device, top.section("layout"));
  check_micro_scaling(layout, model, device, top.section("framework"));
  check_eight_bit_attention(model, device, top.section("framework"));
}

// State on the host needs the rates of the host in the cluster's file.
void check_host(const Layout& layout, const Cluster& cluster, const Layered& section) {
  if (layout.outer_on_host && cluster.host_copy() == Bandwidth{})
    section.problem("local_steps",
                    fmt::format("local_steps.on_host is true, but the file of {} has no {}; "
                                "topologies/FORMAT.md has the keys",
                                cluster.name(), no_path));
  if (!layout.uses_host()) return;
  const HostTraits& host = cluster.host();
  const bool disk = layout.uses_disk();
  std::string missing;
  if (host.bandwidth == Bandwidth{}) missing = "host.bandwidth, the rate of a host's memory";
  if (disk && host.disk_read == Bandwidth{}) missing = "host.nvme: {read, write}";
  if (cluster.host_copy() == Bandwidth{}) missing = no_path;
  if (!missing.empty())
    section.problem("offload", fmt::format("offload.{} is {}, but the file of {} has no {}; "
                                           "topologies/FORMAT.md has the keys",
                                           layout.offloads() ? "optimizer" : "activations",
                                           disk ? "nvme" : "cpu", cluster.name(), missing));
}

// User buffers and symmetric memory are memory of other GPUs, mapped over NVLink
// (Transformer Engine, userbuffers-host.cpp; PyTorch, CUDASymmetricMemory.cu).
void check_cut_products(const Layout& layout, const Cluster& cluster, const Layered& section) {
  const int gpus = cluster.gpus_per_node();
  if (!layout.cuts_products() || tensor_within_nodes(layout, gpus)) return;
  section.problem("overlap", fmt::format("overlap.tensor_products needs tensor ranks on one node, "
                                         "which has {} GPUs here",
                                         gpus));
}

}  // namespace sim
