#include "tests/unit/explain/run_maker.hpp"

#include <algorithm>

namespace sim::test {

RunMaker::RunMaker(bool one_clock) {
  run_.maker = "test";
  run_.one_clock = one_clock;
}

RunMaker& RunMaker::rank(std::uint32_t number) {
  run_.ranks.emplace_back().rank = RankId{number};
  return *this;
}

RunMaker& RunMaker::step(const std::string& name, std::int64_t begin, std::int64_t end) {
  last().steps.push_back({name, at_us(begin), at_us(end)});
  return *this;
}

RunMaker& RunMaker::kernel(const std::string& text, OpKind kind, std::int64_t begin,
                           std::int64_t length, std::int64_t issued, std::uint32_t stream) {
  DeviceActivity activity;
  activity.name = name(text);
  activity.stream = stream;
  activity.begin = at_us(begin);
  activity.end = at_us(begin + length);
  activity.kind = kind;
  if (issued >= 0) {
    activity.launch = static_cast<std::int32_t>(last().host.size());
    host("cudaLaunchKernel", HostSpan::What::runtime, issued, issued + 5);
  }
  last().device.push_back(activity);
  return *this;
}

RunMaker& RunMaker::product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t begin,
                            std::int64_t length) {
  kernel("gemm", OpKind::gemm, begin, length);
  const Product of{m, n, k, 1};
  auto& known = last().products;
  const auto found = std::find(known.begin(), known.end(), of);
  last().device.back().product = static_cast<std::int32_t>(found - known.begin());
  if (found == known.end()) known.push_back(of);
  return *this;
}

RunMaker& RunMaker::work(const Kernel& of) {
  last().device.back().work = static_cast<std::int32_t>(last().works.size());
  last().works.push_back(of);
  return *this;
}

RunMaker& RunMaker::issued_by(std::int32_t issuer) {
  last().device.back().issuer = issuer;
  return *this;
}

RunMaker& RunMaker::collective(CollectiveKind kind, std::int32_t group, std::int64_t bytes,
                               std::int64_t begin, std::int64_t length, std::int64_t issued) {
  kernel("ncclDevKernel", OpKind::collective, begin, length, issued, 20);
  last().device.back().call = static_cast<std::int32_t>(last().calls.size());
  last().calls.push_back({kind, Bytes{bytes}, group, name("bf16")});
  return *this;
}

RunMaker& RunMaker::on_stream(std::uint32_t stream) {
  last().device.back().stream = stream;
  return *this;
}

RunMaker& RunMaker::host(const std::string& text, HostSpan::What what, std::int64_t begin,
                         std::int64_t end) {
  last().host.push_back({name(text), 0, at_us(begin), at_us(end), what});
  return *this;
}

std::int32_t RunMaker::group(const std::string& description, std::vector<std::uint32_t> ranks) {
  TracedGroup group;
  group.name = std::to_string(run_.groups.size());
  group.description = description;
  group.size = static_cast<int>(ranks.size());
  for (const std::uint32_t rank : ranks)
    group.ranks.push_back(RankId{rank});
  run_.groups.push_back(group);
  return static_cast<std::int32_t>(run_.groups.size()) - 1;
}

std::uint32_t RunMaker::name(const std::string& text) {
  const auto found = std::find(run_.names.begin(), run_.names.end(), text);
  const auto index = static_cast<std::uint32_t>(found - run_.names.begin());
  if (found == run_.names.end()) run_.names.push_back(text);
  return index;
}

}  // namespace sim::test
