#include "sim/cli/slow_note.hpp"

#include <future>

#include "tests/catch.hpp"

namespace sim {
namespace {

TEST_CASE("a command that takes long says what it is at and how to stop it", "[cli]") {
  std::promise<void> told;
  bool waits = true;
  SlowNote note{std::chrono::milliseconds{1}, [&](const std::string& text) {
                  if (!waits || !text.starts_with("still at work after ") ||
                      !text.ends_with(" s: simulation, 25 % of it done; Ctrl-C stops it"))
                    return;
                  waits = false;
                  told.set_value();
                }};
  note.control().tell("simulation", 0.25);
  told.get_future().wait();
  SUCCEED();
}

}  // namespace
}  // namespace sim
