// Tables of kernels: what they hold, how they are divided, and that a fit to rows that were made
// from a known device gives its rates back.
#include "sim/calibration/kernel_rows.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/calibration/calibrated_files.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/calibration/measured_files.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

const std::string header =
    "kind,sms,shape,flops,min_bytes,median_us,min_us,max_us,samples,load,forecast_us,note\n";

class File {
 public:
  explicit File(const std::string& text) { std::ofstream{path_} << text; }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = sim::test::temporary_path("kernel-rows.csv");
};

KernelRowsOfFiles read(const std::string& text, std::uint64_t seed = 1) {
  const File file{text};
  return read_kernel_rows({file.path()}, seed);
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return to_text(error.problems().front());
  }
  return "read";
}

Device h100() {
  return load_device(sim::test::source_dir() + "/topologies/devices/h100_sxm.yaml");
}

GemmModel& products_of(Device& device, DType dtype) {
  return *device.gemm[static_cast<std::size_t>(dtype)];
}

// An H100 that differs from the shipped file in everything that a table can tell.
Device another_h100() {
  Device device = h100();
  products_of(device, DType::bf16).attained = 0.9;
  products_of(device, DType::bf16).sustained = 0.66;
  products_of(device, DType::bf16).ramp_k = 280;
  products_of(device, DType::bf16).fixed = 3500ns;
  products_of(device, DType::fp8).gradient_share = 0.85;
  products_of(device, DType::fp8).block_share = 0.6;
  device.memory_kernels.gemm = 0.7;
  device.memory_kernels.elementwise = 0.8;
  device.memory_kernels.norm_forward = 0.55;
  device.memory_kernels.optimizer = 0.75;
  device.memory_kernels.fixed = 3us;
  device.attention.forward_attained = 0.55;
  device.attention.backward_attained = 0.45;
  device.flash_attention_2->forward_attained = 0.35;
  device.grouped_rows->attained = 0.8;
  return device;
}

struct Planned {
  std::string kind, shape;
  double bytes = 0;
};

std::vector<Planned> plan() {
  std::vector<Planned> rows;
  for (const int m : {512, 2048, 8192})
    for (const int n : {512, 1536, 4096, 14336})
      for (const int k : {512, 1024, 4096, 8192})
        for (const char* kind : {"gemm_bf16_tn", "gemm_bf16_dgrad_nn", "gemm_bf16_wgrad_nt",
                                 "gemm_fp8_promoted", "gemm_fp8_blocks"}) {
          const double element =
              std::string_view{kind}.find("fp8") == std::string_view::npos ? 2 : 1;
          rows.push_back({kind, fmt::format("M={} N={} K={}", m, n, k),
                          element * (1.0 * m * k + 1.0 * k * n + 1.0 * m * n)});
        }
  for (const int experts : {8, 32, 64})
    for (const int m : {256, 1024})
      for (const int n : {2048, 4096})
        rows.push_back(
            {"grouped_bf16_tn_even", fmt::format("M={} N={} K=2048 E={}", m, n, experts)});
  for (const int s : {1024, 2048, 4096, 8192, 16384, 32768})
    for (const int d : {64, 128})
      for (const char* kind : {"sdpa_cudnn_fwd", "sdpa_cudnn_bwd", "sdpa_flash_fwd", "flex_fwd"})
        rows.push_back({kind, fmt::format("B=2 H=16 S={} D={} causal=1", s, d)});
  for (const int width : {1024, 2048, 4096, 8192, 14336, 28672})
    for (const char* kind : {"add_eager", "swiglu_eager_fwd", "layer_norm_eager_fwd",
                             "rms_norm_compiled_fwd", "adamw_fused_fp32"}) {
      const bool adam = std::string_view{kind}.starts_with("adamw");
      rows.push_back(
          {kind, fmt::format("T=8192 H={} launches=1", width), (adam ? 64.0 : 4.0) * 8192 * width});
    }
  return rows;
}

// The plan with the times of `truth` and noise of 2%; without it: with empty cells.
std::string table_of(const std::vector<Planned>& rows, const Device* truth) {
  std::string text = header +
                     "# gpu: NVIDIA H100 80GB HBM3\n# date: 2026-11-30T00:00:00Z\n"
                     "# version: torch 2.11.0\n# version: CUDA 13.0\n# condition: 1980 MHz\n";
  const auto line = [&](const Planned& row, const std::string& time) {
    text += fmt::format("{},132,{},0,{:.0f},{},,,,step,,\n", row.kind, row.shape, row.bytes, time);
  };
  if (truth == nullptr) {
    for (const Planned& row : rows)
      line(row, "");
    return text;
  }
  const KernelRowsOfFiles planned = read(table_of(rows, nullptr));
  REQUIRE(planned.all.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double seconds = to_seconds(formula_cost(planned.all[i].kernel, *truth, Load::step).time);
    line(rows[i], fmt::format("{:.3f}", seconds * 1e6 * std::exp(0.02 * standard_normal(7, 0, i))));
  }
  return text + "launch_eager_host,132,,0,0,7.5,7,8,5,step,,\nhost_mm,132,,0,0,9,9,9,5,step,,\n";
}

}  // namespace

TEST_CASE("a fit to rows that a known device made gives its rates back", "[calibration]") {
  const Device truth = another_h100();
  const KernelRowsOfFiles rows = read(table_of(plan(), &truth));
  const DeviceCalibration fit = calibrate_device(h100(), rows.machine);
  Device made = truth, found = fit.device;
  const auto near = [](double value, double wanted, double share) {
    CHECK_THAT(value, WithinRel(wanted, share));
  };
  const GemmModel &bf16 = products_of(found, DType::bf16), &wanted = products_of(made, DType::bf16);
  near(bf16.attained, wanted.attained, 0.03);
  near(bf16.sustained, wanted.sustained, 0.02);
  near(bf16.ramp_k, wanted.ramp_k, 0.2);
  near(to_seconds(bf16.fixed), to_seconds(wanted.fixed), 0.15);
  near(products_of(found, DType::fp8).gradient_share, 0.85, 0.05);
  near(products_of(found, DType::fp8).block_share, 0.6, 0.05);
  near(found.memory_kernels.elementwise, 0.8, 0.03);
  near(found.memory_kernels.norm_forward, 0.55, 0.03);
  near(found.memory_kernels.optimizer, 0.75, 0.03);
  near(found.attention.forward_attained, 0.55, 0.05);
  near(found.attention.backward_attained, 0.45, 0.05);
  near(found.flash_attention_2->forward_attained, 0.35, 0.05);
  near(found.grouped_rows->attained, 0.8, 0.08);
  CHECK(found.host_issue == 7500ns);
  CHECK(found.measured_kernels.empty());
  // Neither part is off by much more than the noise (few rows scatter), and rows without a
  // parameter are told apart.
  std::size_t held_out_parts = 0, checks = 0;
  for (const FitResidual& part : fit.residuals) {
    INFO(part.what);
    if (part.what.ends_with(", not fitted")) {
      ++checks;
      continue;
    }
    CHECK(part.error.median < (part.error.rows < 20 ? 0.08 : 0.03));
    held_out_parts += part.what.ends_with(", held out") ? 1 : 0;
  }
  CHECK(held_out_parts >= 6);
  CHECK(checks == 2);
  const std::string file = device_yaml(fit, rows.machine);
  CHECK(file.find(
            "calibrated 2026-11-30T00:00:00Z on an unnamed machine (torch 2.11.0, CUDA 13.0)") !=
        std::string::npos);
  CHECK(parse_device(file, "device.yaml").host_issue == 7500ns);
}

TEST_CASE("a seed divides the rows of kernels into 70 and 30 percent of the shapes",
          "[calibration]") {
  const Device truth = h100();
  const std::string table = table_of(plan(), &truth);
  const auto held = [&table](std::uint64_t seed) {
    std::vector<std::string> names;
    std::size_t fitted = 0;
    for (const MeasuredKernel& row : read(table, seed).machine.kernels) {
      if (row.use == KernelUse::held_out)
        names.push_back(fmt::format("{} {} {}", row.kernel.m, row.kernel.n, row.kernel.k));
      fitted += row.use == KernelUse::fit ? 1 : 0;
    }
    const double share =
        static_cast<double>(names.size()) / static_cast<double>(names.size() + fitted);
    CHECK(share > 0.15);
    CHECK(share < 0.45);
    return names;
  };
  CHECK(held(1) == held(1));
  CHECK(held(1) != held(2));
}

TEST_CASE("a table of kernels is read strictly", "[calibration]") {
  const std::string row = "gemm_bf16_tn,132,M=64 N=64 K=64,1,1,3.5,3,4,9,";
  CHECK(read(header + row + "step,,\n").machine.kernels.at(0).load == Load::step);
  CHECK(read(header + row + "loop,,\n").machine.kernels.at(0).load == Load::loop);
  CHECK(error_of(header + row + "sometimes,,\n")
            .find(":2:1: error: load is sometimes; allowed: loop, step") != std::string::npos);
  CHECK(error_of("kind,sms\n").find(":1:1: error: expected the header kind,sms,shape") !=
        std::string::npos);
  CHECK(error_of("# gpu: none\n").find(": error: expected the header") != std::string::npos);
  // Left out on the machine: a forecast alone.
  const KernelRowsOfFiles left =
      read(header + "gemm_bf16_tn,132,M=64 N=64 K=64,1,1,,,,,step,,left out: why\n");
  CHECK(left.machine.kernels.empty());
  REQUIRE(left.all.size() == 1);
  const std::string csv = forecast_csv(left, h100(), 1);
  const double us = to_seconds(formula_cost(left.all[0].kernel, h100()).time) * 1e6;
  CHECK(csv.find(fmt::format("gemm_bf16_tn,132,M=64 N=64 K=64,{:.3f},,,none\n", us)) !=
        std::string::npos);
  CHECK(csv.find("launch_eager_host,132,,9.800,,,none\n") != std::string::npos);
  // What the host bounds and what is no kernel of the model is not fitted.
  const KernelRowsOfFiles eager = read(header +
                                       "adamw_fused_fp32,132,P=9,0,1000000,20,20,20,5,step,,\n"
                                       "a_new_kernel,132,X=1,0,1,20,20,20,5,step,,\n");
  CHECK(eager.machine.kernels.empty());
  REQUIRE(eager.notes.size() == 1);
  CHECK(eager.notes[0] == "1 rows are bound by the host that issues them: left out");
}
