#include "real/host/server_exchange.hpp"

#include <algorithm>
#include <vector>

namespace real {
namespace {

class ServerExchange : public HostExchange {
 public:
  ServerExchange(ParameterServers& servers, const ServerPush& all)
      : servers_{servers},
        all_{all},
        part_{all.gradient.empty()
                  ? 1
                  : servers.part_of(static_cast<std::int64_t>(all.gradient.size()))} {
    cut();
  }
  bool progress() override {
    while (first() < static_cast<std::int64_t>(all_.gradient.size())) {
      if (!servers_.exchange(push_)) return false;
      ++push_.part;
      cut();
    }
    return true;
  }

 private:
  std::int64_t first() const { return static_cast<std::int64_t>(push_.part) * part_; }
  void cut() {
    const auto size = static_cast<std::int64_t>(all_.gradient.size());
    const std::int64_t from = std::min(first(), size), to = std::min(from + part_, size);
    const std::size_t part = push_.part, at = static_cast<std::size_t>(from),
                      count = static_cast<std::size_t>(to - from);
    push_ = all_;
    push_.part = part;
    push_.gradient = all_.gradient.subspan(at, count);
    push_.result = all_.result.subspan(at, count);
    decayed_.clear();
    for (const kernels::Range& range : all_.decayed) {
      const std::int64_t begin = std::max<std::int64_t>(range.at, from);
      const std::int64_t end = std::min<std::int64_t>(range.at + range.elements, to);
      if (begin < end) decayed_.push_back({begin - from, end - begin});
    }
    push_.decayed = decayed_;
  }

  ParameterServers& servers_;
  ServerPush all_, push_;
  std::int64_t part_ = 1;
  std::vector<kernels::Range> decayed_;
};

}  // namespace

std::unique_ptr<HostExchange> start_server_exchange(ParameterServers& servers,
                                                    const ServerPush& all) {
  return std::make_unique<ServerExchange>(servers, all);
}

}  // namespace real
