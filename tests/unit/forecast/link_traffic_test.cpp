// Traffic of each link, out of a folded timeline: as in one that was not folded.
#include "sim/engine/link_traffic.hpp"

#include <map>

#include "sim/forecast/forecast.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;

Scenario loaded(const std::string& name, const std::vector<std::string>& set) {
  return load_scenario(test::source_dir() + "/scenarios/" + name, set);
}

TEST_CASE("every link of a folded machine carries what it carries in the whole one", "[engine]") {
  const auto [name, set] = GENERATE(table<std::string, std::vector<std::string>>(
      {{"llama-3.1-70b-512-h100.yaml", {"layout.data_parallel=2", "layout.global_batch=64"}},
       {"mixtral-8x7b-64-h100.yaml", {}}}));
  CAPTURE(name);
  const Scenario scenario = loaded(name, set);
  const Forecast folded = forecast(scenario);
  Scenario whole = loaded(name, set);
  whole.options.fold = false;
  const Forecast unfolded = forecast(whole);
  REQUIRE(folded.timeline.links.size() < unfolded.timeline.links.size());

  const LinkTraffic traffic{*folded.plan, scenario.cluster, scenario.options, folded.timeline};
  std::map<std::uint32_t, LinkLoad> expected;
  for (const LinkLoad& load : unfolded.timeline.links)
    expected[load.link.value] = load;
  Bytes sum{}, expected_sum{};
  for (std::uint32_t link = 0; link < scenario.cluster.link_count(); ++link) {
    const LinkLoad* load = traffic.load({link});
    const auto found = expected.find(link);
    REQUIRE((load != nullptr) == (found != expected.end()));
    if (!load) continue;
    CHECK(load->carried == found->second.carried);
    CHECK(load->busy == found->second.busy);
    sum += load->carried;
  }
  for (const LinkLoad& load : folded.timeline.links)
    expected_sum += load.carried * static_cast<std::int64_t>(load.represents);
  CHECK(sum == expected_sum);
}

TEST_CASE("who uses a link: roles, how many communicators, and the ranks of the first",
          "[engine]") {
  const Scenario scenario = loaded("llama-3.1-70b-512-h100.yaml", {});
  const Forecast made = forecast(scenario);
  const LinkTraffic traffic{*made.plan, scenario.cluster, scenario.options, made.timeline};
  std::uint32_t used = 0;
  for (std::uint32_t link = 0; link < scenario.cluster.links_per_node(); ++link) {
    const std::vector<LinkUser> users = traffic.users({link});
    // A link that carries bytes is used by somebody.
    if (traffic.load({link})) CHECK_FALSE(users.empty());
    for (const LinkUser& user : users) {
      ++used;
      CHECK(user.channels > 0);
      CHECK(user.ranks.size() >= 2);
      CHECK_FALSE(user.purpose.empty());
    }
  }
  CHECK(used > 0);
}

}  // namespace
