#include "sim/engine/joined.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/check.hpp"

namespace sim {
namespace {

std::uint32_t count_of(const auto& items) {
  return static_cast<std::uint32_t>(items.size());
}

// Where the parts of a job stand among those of all.
struct Offsets {
  std::uint32_t slots = 0, channels = 0, members = 0, patterns = 0, uses = 0, variants = 0,
                programs = 0;
  std::uint32_t group_rows = 0, peer_rows = 0;   // rows of this kind of the jobs before
  std::uint32_t collectives = 0, transfers = 0;  // of the jobs before
};

class Joining {
 public:
  explicit Joining(std::span<const JobSystem> jobs) : jobs_{jobs} {
    for (const JobSystem& job : jobs) {
      group_rows_ += count_of(job.system.group_shapes);
      peer_rows_ += count_of(job.system.peer_routes);
      collectives_ += count_of(job.system.requests.collectives);
      transfers_ += count_of(job.system.requests.transfers);
    }
    all_.costs.resize(std::size_t{group_rows_ + peer_rows_} * (collectives_ + transfers_));
    all_.is_priced.resize(all_.costs.size(), 0);
    resource_of_link_.resize(jobs.front().cluster->link_count(), none);
  }

  System join() {
    for (const JobSystem& job : jobs_) {
      SIM_CHECK(job.cluster->link_count() == resource_of_link_.size(), "another machine",
                job.cluster->name());
      add_links(job.system);
      add_costs(job.system);
      add_parts(job.system);
      move_on(job.system);
    }
    return std::move(all_);
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  void add_links(const System& system) {
    resource_of_.clear();
    for (const Resource& resource : system.resources) {
      std::uint32_t& known = resource_of_link_[resource.link.value];
      if (known == none) {
        known = count_of(all_.resources);
        all_.resources.push_back(resource);
      }
      resource_of_.push_back(known);
    }
  }

  std::uint32_t row_of(const System& system, std::uint32_t row) const {
    const std::uint32_t groups = count_of(system.group_shapes);
    return row < groups ? at_.group_rows + row : group_rows_ + at_.peer_rows + row - groups;
  }
  std::uint32_t request_of(const System& system, std::uint32_t request) const {
    const std::uint32_t collectives = count_of(system.requests.collectives);
    return request < collectives ? at_.collectives + request
                                 : collectives_ + at_.transfers + request - collectives;
  }

  void add_costs(const System& system) {
    const auto width = static_cast<std::uint32_t>(system.requests.size());
    const std::size_t all_width = std::size_t{collectives_} + transfers_;
    for (std::uint32_t cell = 0; cell < system.costs.size(); ++cell) {
      const std::size_t to =
          row_of(system, cell / width) * all_width + request_of(system, cell % width);
      all_.costs[to] = system.costs[cell];
      all_.is_priced[to] = system.is_priced[cell];
    }
    append(all_.requests.collectives, system.requests.collectives);
    append(all_.requests.transfers, system.requests.transfers);
    append_moved(all_.requests.of_collective, system.requests.of_collective, at_.collectives);
    append_moved(all_.requests.of_transfer, system.requests.of_transfer, at_.transfers);
    append(all_.group_shapes, system.group_shapes);
    append(all_.peer_routes, system.peer_routes);
  }

  void add_parts(const System& system) {
    for (RankSlot slot : system.slots) {
      slot.program += at_.programs;
      slot.variant += at_.variants;
      for (std::uint32_t& channel : slot.group)
        if (channel != no_channel) channel += at_.channels;
      for (std::uint32_t& channel : slot.peer)
        if (channel != no_channel) channel += at_.channels;
      all_.slots.push_back(slot);
    }
    for (Channel channel : system.channels) {
      channel.shape = row_of(system, channel.shape);
      channel.first_member += at_.members;
      channel.first_pattern += at_.patterns;
      all_.channels.push_back(channel);
    }
    for (const std::uint32_t member : system.members)
      all_.members.push_back(at_.slots + member);
    for (Pattern pattern : system.patterns) {
      pattern.first_use += at_.uses;
      all_.patterns.push_back(pattern);
    }
    for (const ResourceUse& use : system.uses)
      all_.uses.push_back({resource_of_[use.resource], use.weight});
    for (Variant variant : system.variants) {
      variant.program += at_.programs;
      all_.variants.push_back(variant);
    }
  }

  void move_on(const System& system) {
    at_.slots += count_of(system.slots);
    at_.channels += count_of(system.channels);
    at_.members += count_of(system.members);
    at_.patterns += count_of(system.patterns);
    at_.uses += count_of(system.uses);
    at_.variants += count_of(system.variants);
    at_.programs += count_of(system.requests.of_collective);
    at_.group_rows += count_of(system.group_shapes);
    at_.peer_rows += count_of(system.peer_routes);
    at_.collectives += count_of(system.requests.collectives);
    at_.transfers += count_of(system.requests.transfers);
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }
  using Rows = std::vector<std::vector<std::uint32_t>>;
  static void append_moved(Rows& to, const Rows& more, std::uint32_t by) {
    for (std::vector<std::uint32_t> row : more) {
      for (std::uint32_t& request : row)
        request += by;
      to.push_back(std::move(row));
    }
  }

  std::span<const JobSystem> jobs_;
  System all_;
  Offsets at_;
  std::uint32_t group_rows_ = 0, peer_rows_ = 0, collectives_ = 0, transfers_ = 0;
  std::vector<std::uint32_t> resource_of_link_;
  std::vector<std::uint32_t> resource_of_;  // of the job's resources
};

}  // namespace

System joined(std::span<const JobSystem> jobs) {
  return Joining{jobs}.join();
}

}  // namespace sim
