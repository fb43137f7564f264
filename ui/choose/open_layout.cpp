#include "ui/choose/open_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/layout_values.hpp"

namespace ui {
namespace {

bool is_of_search(const std::string& assignment) {
  return assignment.starts_with("search.");
}

std::vector<std::string> without_search(std::vector<std::string> list) {
  std::erase_if(list, is_of_search);
  return list;
}

Knob knob_of(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  return {assignment.substr(0, equals), assignment.substr(equals + 1)};
}

bool gives(const LayoutFacts& facts, const Knobs& knobs) {
  const SearchAsked& asked = facts.searched->asked;
  std::vector<std::string> list = without_search(asked.overrides);
  for (const auto& [key, value] : knobs) {
    std::erase_if(list, [&key = key](const std::string& one) { return knob_of(one).first == key; });
    list.push_back(fmt::format("{}={}", key, value));
  }
  try {
    const sim::Scenario scenario =
        sim::load_scenario(sim::ScenarioSources::of_text(asked.yaml, asked.path, list));
    return scenario.layout == facts.layout &&
           scenario.cluster.gpus_per_node() == facts.gpus_per_node;
  } catch (const sim::InputError&) {
    return false;
  }
}

}  // namespace

bool is_of(const SearchAsked& asked, const Session& session) {
  return asked.path == session.path() && asked.yaml == session.yaml() &&
         without_search(asked.overrides) == without_search(session.overrides());
}

Knobs knobs_of(const LayoutFacts& facts, const sim::Layout& now) {
  const sim::Model& model = facts.searched->search.specification().workload.model;
  const std::vector<std::string> wanted = sim::overrides_of(facts.layout, model);
  const std::vector<std::string> present = sim::overrides_of(now, model);
  Knobs few, all;
  for (const std::string& one : wanted) {
    all.push_back(knob_of(one));
    if (std::find(present.begin(), present.end(), one) == present.end())
      few.push_back(knob_of(one));
  }
  const Knob room{"cluster.gpus_per_node", std::to_string(facts.gpus_per_node)};
  if (gives(facts, few)) return few;
  few.push_back(room);
  if (gives(facts, few)) return few;
  if (!gives(facts, all)) all.push_back(room);
  return all;
}

void open_layout(Session& session, const LayoutFacts& facts) {
  const SearchAsked& asked = facts.searched->asked;
  const bool current = is_of(asked, session) && session.result();
  const Knobs knobs = knobs_of(
      facts, current ? session.result()->scenario.layout : specification_of(asked).workload.layout);
  if (current) return session.set_knobs(knobs, QObject::tr("layout of the search"));
  Knobs both;
  for (const std::string& one : without_search(asked.overrides))
    both.push_back(knob_of(one));
  for (const Knob& knob : knobs) {
    std::erase_if(both, [&](const Knob& one) { return one.first == knob.first; });
    both.push_back(knob);
  }
  session.open_text(QString::fromStdString(asked.path), asked.yaml, both);
}

}  // namespace ui
