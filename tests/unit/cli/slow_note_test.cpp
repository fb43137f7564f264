#include "sim/cli/slow_note.hpp"

#include <atomic>
#include <future>

#include "tests/catch.hpp"

namespace sim {
namespace {

TEST_CASE("a command that takes long says what it is at and how to stop it", "[cli]") {
  std::atomic<bool> is_at_it = false;
  int notes = 0;  // since then; the first may be of before
  std::promise<std::string> told;
  SlowNote note{std::chrono::milliseconds{1}, [&](const std::string& text) {
                  if (is_at_it && ++notes == 2) told.set_value(text);
                }};
  note.control().tell("simulation", 0.25);
  is_at_it = true;
  const std::string text = told.get_future().get();
  CHECK_THAT(text, Catch::Matchers::StartsWith("still at work after "));
  CHECK_THAT(text, Catch::Matchers::EndsWith(" s: simulation, 25 % of it done; Ctrl-C stops it"));
}

}  // namespace
}  // namespace sim
