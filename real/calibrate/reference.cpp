#include "real/calibrate/reference.hpp"

#include <array>
#include <thread>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/kernel_samples.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

double figure(const ReferenceSample& sample, ReferenceKind kind, bool share_cores) {
  if (share_cores) return sample.whole;
  return kind == ReferenceKind::product ? sample.typical.product : sample.typical.copy;
}

}  // namespace

bool ranks_share_cores(int ranks) {
  const unsigned cores = std::thread::hardware_concurrency();
  return cores > 0 && static_cast<unsigned>(ranks) > cores;
}

ReferenceSample sample_reference(Reference& reference, Transport& transport, int pieces) {
  barrier(transport);
  const ReferenceRun mine = reference.run(pieces);
  const std::array<double, 3> values{mine.typical.product, mine.typical.copy, mine.whole};
  const std::vector<std::vector<double>> all = gather(transport, values);
  ReferenceSample sample;
  for (const std::vector<double>& rank : all) {
    sample.typical.product += rank[0] / static_cast<double>(all.size());
    sample.typical.copy += rank[1] / static_cast<double>(all.size());
    sample.whole = std::max(sample.whole, rank[2]);
  }
  sample.typical.product = agree(transport, sample.typical.product);
  sample.typical.copy = agree(transport, sample.typical.copy);
  sample.whole = agree(transport, sample.whole);
  return sample;
}

DriftMeter::DriftMeter(Reference& reference, Transport& transport, bool share_cores)
    : reference_{reference}, transport_{transport}, share_cores_{share_cores} {
  // The first brings pages, code and clocks to where they stay.
  static_cast<void>(sample_reference(reference_, transport_, reference_.pieces_between_kernels()));
  mark();
}

void DriftMeter::mark() {
  marks_.push_back(sample_reference(reference_, transport_, reference_.pieces_between_kernels()));
  if (parts_.empty()) return;
  if (const std::optional<GpuReading> state = reference_.state()) parts_.back().second.add(*state);
}

void DriftMeter::begin_part(const std::string& name) {
  parts_.emplace_back(name, GpuLog{});
}

std::vector<std::string> DriftMeter::conditions() const {
  std::vector<std::string> lines;
  if (!reference_.no_state().empty()) lines.push_back(reference_.no_state());
  for (const auto& [name, log] : parts_)
    if (!log.empty()) lines.push_back(name + ": " + log.text());
  return lines;
}

double DriftMeter::scale(ReferenceKind kind) const {
  SIM_CHECK(!marks_.empty());
  const ReferenceSample& after = marks_.back();
  const ReferenceSample& before = marks_[marks_.size() > 1 ? marks_.size() - 2 : 0];
  return 2 * figure(marks_.front(), kind, share_cores_) /
         (figure(before, kind, share_cores_) + figure(after, kind, share_cores_));
}

double DriftMeter::rescale(ReferenceKind kind) const {
  return figure(typical(), kind, share_cores_) / figure(marks_.front(), kind, share_cores_);
}

ReferenceSample DriftMeter::typical() const {
  std::vector<double> product, copy, whole;
  for (const ReferenceSample& mark : marks_) {
    product.push_back(mark.typical.product);
    copy.push_back(mark.typical.copy);
    whole.push_back(mark.whole);
  }
  ReferenceSample middle{.typical = {.product = median(product), .copy = median(copy)}};
  middle.whole = share_cores_ ? median(whole) : middle.typical.product + middle.typical.copy;
  return middle;
}

std::vector<double> DriftMeter::slowdowns() const {
  const double usual = typical().whole;
  std::vector<double> all;
  for (const ReferenceSample& mark : marks_)
    all.push_back(mark.whole / usual);
  return all;
}

}  // namespace real
