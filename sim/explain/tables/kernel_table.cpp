#include "sim/explain/tables/kernel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/config/data_files.hpp"
#include "sim/explain/activity_class.hpp"
#include "sim/topology/device_of_gpu.hpp"

namespace sim {
namespace {

double flops_of(const Product& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

class TableMaker {
 public:
  TableMaker(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted)
      : run_{run}, steps_{steps}, counted_{counted} {}

  KernelTables make(double seconds, FlopRate peak) {
    for (std::size_t r = 0; r < run_.ranks.size(); ++r)
      add_rank(r);
    const std::size_t steps = number_of_steps(counted_);
    KernelTables tables;
    const auto rows = [&](std::map<std::string, KernelRow>& from, std::vector<KernelRow>& to) {
      for (auto& [name, row] : from) {
        finish(row, static_cast<double>(std::max<std::size_t>(1, steps)), seconds, peak);
        to.push_back(std::move(row));
      }
    };
    rows(categories_, tables.categories);
    rows(names_, tables.names);
    rows(products_, tables.products);
    const auto longer = [](const KernelRow& a, const KernelRow& b) {
      return a.seconds > b.seconds;
    };
    std::stable_sort(tables.categories.begin(), tables.categories.end(), longer);
    std::stable_sort(tables.names.begin(), tables.names.end(), longer);
    std::stable_sort(tables.products.begin(), tables.products.end(),
                     [&](const KernelRow& a, const KernelRow& b) {
                       return a.seconds * (1 - a.of_peak) > b.seconds * (1 - b.of_peak);
                     });
    return tables;
  }

 private:
  void add_rank(std::size_t r) {
    const RunRank& rank = run_.ranks[r];
    std::set<std::int32_t> issuers;  // several kernels of a product do its work once
    for (std::size_t i = 0; i < rank.device.size(); ++i) {
      const DeviceActivity& activity = rank.device[i];
      const std::int32_t step = steps_.ranks[r].step_of[i];
      if (step == not_told || !counted_[r][static_cast<std::size_t>(step)]) continue;
      if (class_of_activity(activity) == ActivityClass::of_host) continue;
      const Product* const product =
          activity.product >= 0 ? &rank.products[static_cast<std::size_t>(activity.product)]
                                : nullptr;
      const bool first = activity.issuer < 0 || issuers.insert(activity.issuer).second;
      const double flops = product && first ? flops_of(*product) : 0;
      // An operator of the host is one, in however many pieces it ran.
      const double count = run_.on_host && !first ? 0 : 1;
      const std::string category{activity.what == DeviceActivity::What::kernel
                                     ? category_of(activity.kind)
                                     : std::string_view{"copies"}};
      add(categories_[category], category, category, activity, count, flops);
      const std::string name = kernel_words(run_.names[activity.name]);
      add(names_[name], name, category, activity, count, flops);
      if (product) {
        const std::string shape = shape_text(*product);
        add(products_[shape], shape, category, activity, count, flops);
        products_[shape].product = *product;
      }
    }
  }

  static void add(KernelRow& row, const std::string& name, const std::string& category,
                  const DeviceActivity& activity, double count, double flops) {
    row.name = name;
    row.category = category;
    row.count += count;
    row.seconds += to_seconds(activity.time());
    row.flops += flops;
    if (activity.product >= 0) row.shaped_seconds += to_seconds(activity.time());
  }

  static void finish(KernelRow& row, double steps, double seconds, FlopRate peak) {
    row.count /= steps;
    row.seconds /= steps;
    row.flops /= steps;
    row.shaped_seconds /= steps;
    if (seconds > 0) row.share = row.seconds / seconds;
    if (peak.in_flops_per_second() > 0) row.of_peak = row.flop_rate() / peak.in_flops_per_second();
  }

  const TracedRun& run_;
  const RunSteps& steps_;
  const CountedSteps& counted_;
  std::map<std::string, KernelRow> categories_, names_, products_;
};

}  // namespace

std::string shape_text(const Product& p) {
  return p.batch == 1 ? fmt::format("{}x{}x{}", p.m, p.n, p.k)
                      : fmt::format("{} x {}x{}x{}", p.batch, p.m, p.n, p.k);
}

std::size_t number_of_steps(const CountedSteps& counted) {
  std::size_t steps = 0;
  for (const auto& of : counted)
    steps += static_cast<std::size_t>(std::count(of.begin(), of.end(), true));
  return steps;
}

std::optional<Device> known_device(const TracedDevice& device) {
  const std::string name = device_of_gpu(device.name);
  const std::string file = name.empty() ? name : shipped_file("topologies/devices", name);
  if (file.empty()) return std::nullopt;
  return load_device(file);
}

FlopRate peak_in_16_bits(const Device& device) {
  for (const DType dtype : {DType::bf16, DType::fp16})
    if (const GemmModel* const model = device.gemm_model(dtype)) return model->peak;
  return {};
}

KernelTables kernel_tables(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted,
                           double seconds, FlopRate peak) {
  return TableMaker{run, steps, counted}.make(seconds, peak);
}

}  // namespace sim
