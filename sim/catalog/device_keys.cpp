// Keys of the device's file (topologies/devices/README.md) that a what-if may change, as
// cluster.device.KEY.
#include <fmt/format.h>

#include "sim/base/dtype.hpp"
#include "sim/catalog/tables.hpp"
#include "sim/topology/device.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

constexpr RealRange share{1e-6, 1};

KeyDefault of_device_file() {
  return KeyDefault::follows("the device file's");
}
Key share_key(std::string path, std::string help, RealRange range = share) {
  return number_key(std::move(path), range, "", of_device_file(), std::move(help));
}
Key amount_key(KeyType type, std::string path, std::string help) {
  return quantity_key(type, std::move(path), of_device_file(), std::move(help));
}

std::vector<Key> figures() {
  return {
      word_key<Generation>("generation", of_device_file(),
                           "architecture, which NCCL's tuning asks for"),
      integer_key("sms", {1, 4096}, "SMs", of_device_file(), "streaming multiprocessors"),
      amount_key(size, "memory", "memory of the device"),
      amount_key(size, "reserved.cuda_context", "memory of the CUDA context"),
      amount_key(size, "reserved.nccl", "memory of NCCL beside its communicators' buffers"),
      amount_key(size, "reserved.libraries", "memory of the libraries' workspaces"),
      amount_key(size, "l2", "L2 cache"),
      amount_key(bandwidth, "memory_bandwidth", "data-sheet bandwidth of the memory"),
      amount_key(duration, "host_issue", "host time to issue one kernel; 1 ms at most"),
      number_key("kernel_gaps.issued_us", {-1000, 1000}, "us", KeyDefault::follows("0"),
                 "device time between kernels beyond their own, issued one by one"),
      number_key("kernel_gaps.replayed_us", {-1000, 1000}, "us", KeyDefault::follows("0"),
                 "the same in a CUDA graph; below 0: one starts while the last one ends"),
      number_key("tdp_watts", {1, 1e5}, "W", of_device_file(), "thermal design power"),
      share_key("short_loops.burst", "short loops run above the sustained clock by this", {0, 10}),
      amount_key(duration, "short_loops.burst_half", "kernel time with half of that"),
      amount_key(bandwidth, "short_loops.l2_bandwidth", "bandwidth of the L2 cache"),
      amount_key(bandwidth, "operand_feed.per_sm", "rate of GEMM operands into one SM"),
      amount_key(bandwidth, "operand_feed.device", "rate of GEMM operands into all SMs"),
      share_key("communication.compute_share", "share of the device that a collective holds",
                {0, 1}),
  };
}

std::vector<Key> gemm(std::string_view dtype) {
  std::vector<Key> keys{
      amount_key(rate, "peak", "dense data-sheet rate of GEMMs"),
      share_key("attained", "share of the peak that a large GEMM attains", {1e-6, 2}),
      share_key("sustained", "share of the peak that the power limit allows"),
      share_key("ramp_k", "steps of K that a tile's pipeline costs", {0, 65536}),
      amount_key(duration, "fixed", "launch and tail of one GEMM"),
  };
  if (dtype == sim::word(DType::fp8)) {
    keys.push_back(share_key("gradient_share", "of `attained`, GEMMs that give gradients"));
    keys.push_back(
        share_key("block_share", "of `attained`, GEMMs with scales of 1 x 128 and 128 x 128"));
    keys.push_back(share_key("row_share", "of `attained`, GEMMs with scales of 1 x 128 twice"));
    keys.push_back(boolean_key("either_order", of_device_file(),
                               "GEMMs with scales of tensors read operands in either order"));
    keys.push_back(share_key("micro_share", "of `attained`, GEMMs with scales of 1 x 32 (MXFP8)"));
  }
  return in_section(fmt::format("gemm.{}", dtype), std::move(keys));
}

std::vector<Key> grouped(std::string_view section) {
  return in_section(
      section,
      {
          share_key("attained", "share of the 16-bit peak, experts in one kernel", {1e-6, 2}),
          share_key("ramp_k", "steps of K that a tile costs", {0, 65536}),
          amount_key(duration, "per_group", "of an SM that turns to the next expert"),
          amount_key(duration, "fixed", "launch and tail of one kernel"),
      });
}

std::vector<Key> eight_bit_attention(std::string_view section) {
  return in_section(section,
                    {
                        share_key("gain", "rate in 8 bits over that in 16", {0.1, 10}),
                        share_key("ramp_tokens", "keys per query with half of it", {0, 65536}),
                        share_key("width", "power of the head's width over 128", {-4, 4}),
                    });
}

std::vector<Key> attention(std::string_view section) {
  std::vector<Key> keys = in_section(
      section, {
                   text_key(text, "kernels", of_device_file(), "name of the attention kernels"),
                   share_key("forward_attained", "share of the 16-bit peak, forward"),
                   share_key("backward_attained", "share of the 16-bit peak, backward"),
                   share_key("ramp_tokens", "keys per query with half of the rate", {0, 65536}),
                   share_key("ramp_head_dim", "head dimension with half of the rate", {0, 4096}),
                   share_key("causal_efficiency", "rate of causal over full attention"),
                   amount_key(duration, "fixed", "launch and tail of one attention kernel"),
               });
  if (section != "attention") return keys;  // 8 bits are of the fastest kernels
  for (const char* format : {"fp8", "mxfp8"})
    for (const char* pass : {"forward", "backward"})
      for (Key& key : eight_bit_attention(fmt::format("{}.{}.{}", section, format, pass)))
        keys.push_back(std::move(key));
  return keys;
}

std::vector<Key> memory_kernels() {
  return in_section("memory_kernels",
                    {
                        share_key("elementwise", "share of the bandwidth, element-wise kernels"),
                        share_key("strided", "the same with broadcast or strided tensors"),
                        share_key("transposed", "the same of compiled kernels that transpose"),
                        share_key("norm_forward", "share of the bandwidth, norms forward"),
                        share_key("norm_backward", "share of the bandwidth, norms backward"),
                        share_key("softmax", "share of the bandwidth, unfused softmax"),
                        share_key("scan_forward", "share of the bandwidth, scans forward"),
                        share_key("scan_backward", "share of the bandwidth, scans backward"),
                        share_key("optimizer", "share of the bandwidth, optimizer step"),
                        share_key("gemm", "share of the bandwidth, memory-bound GEMMs"),
                        amount_key(duration, "fixed", "launch and tail of one memory-bound kernel"),
                        amount_key(bandwidth, "per_sm", "bandwidth that one SM can use"),
                    });
}

}  // namespace

std::vector<Key> device() {
  std::vector<Key> keys = figures();
  const auto add = [&](std::vector<Key> more) {
    for (Key& key : more)
      keys.push_back(std::move(key));
  };
  for (const auto& dtype : words_of(DType{}))
    add(gemm(dtype.text));
  for (const char* section : {"grouped_gemm.rows", "grouped_gemm.depth"})
    add(grouped(section));
  for (const char* section : {"attention", "flash_attention_1", "flash_attention_2"})
    add(attention(section));
  add(memory_kernels());
  return in_section("cluster.device", std::move(keys));
}

}  // namespace sim::catalog_tables
