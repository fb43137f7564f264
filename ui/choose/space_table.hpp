// The dimensions of a search as data: what the window asks for each.
#pragma once

#include <QString>
#include <string>
#include <vector>

#include "sim/search/search.hpp"

namespace ui {

struct SpaceRow {
  const char* key;  // of the section `search`
  const char* title;
  const char* help;
  bool rare;                       // shown only on demand
  std::vector<std::string> words;  // what it can be; empty: whole numbers
  std::vector<std::string> (*listed)(const sim::SearchSpace&);
  void (*open)(sim::SearchSpace&);
  std::string (*of)(const sim::Layout&, int gpus_per_node);  // of one layout
  bool (*applies)(const sim::Model&);
};

const std::vector<SpaceRow>& space_rows();

// As if the file did not have the key: a dimension is open, a margin that of the forecast.
void unset(sim::SearchSpecification& specification, const std::string& key);

// Which values each row has among the candidates, in the order of the candidates' numbers: what
// "open" means here.
std::vector<std::vector<std::string>> values_of(const sim::SearchSpecification& specification,
                                                const sim::Candidates& candidates);

}  // namespace ui
