// The seat of a rank, whatever carries it. Room-internal.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "real/launch/inject.hpp"
#include "real/launch/launch.hpp"

namespace real {

class TransportSeat : public Seat {
 public:
  struct Setup {
    World world{};
    Transport* transport = nullptr;
    Heartbeat* heartbeat = nullptr;
    std::function<bool()> interrupted{};  // has a signal come to this process
    std::optional<Fault> fault{};
  };
  explicit TransportSeat(Setup setup);
  const World& world() const override { return setup_.world; }
  Transport& transport() override { return *setup_.transport; }
  Heartbeat& heartbeat() override { return *setup_.heartbeat; }
  bool stop_wanted() override;
  bool interrupted() override;
  void inject_fault(std::int64_t before_step) override;
  bool stopped() const { return stopped_; }  // stop_wanted() has answered yes

 private:
  Setup setup_;
  std::vector<int> members_;
  bool stopped_ = false;
};

}  // namespace real
