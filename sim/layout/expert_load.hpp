// How many tokens each expert of a layer gets, as somebody has measured it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sim {

// A row for each case that was measured (a layer, a micro-batch, a step), all of one weight; a
// number for each expert. Cheap to copy.
class ExpertLoad {
 public:
  using Rows = std::vector<std::vector<double>>;

  ExpertLoad() = default;  // nothing was measured
  // `file`: what a scenario names; empty: it has the rows themselves. REQUIRES: rows of one length,
  // each with a number above 0, none below.
  explicit ExpertLoad(Rows rows, std::string file = {});

  bool exists() const { return data_ != nullptr; }
  const Rows& rows() const;
  const std::string& file() const;
  std::size_t experts() const { return exists() ? rows().front().size() : 0; }
  bool operator==(const ExpertLoad& other) const;

 private:
  struct Data {
    std::string file;
    Rows rows;
    bool operator==(const Data&) const = default;
  };
  std::shared_ptr<const Data> data_;
};

// A file of such rows: CSV, a column for each expert. A first line without numbers is a header, in
// which columns may be called layer, step or micro_batch: they are passed over. Empty lines and
// those that begin with # are, too. Throws InputError.
ExpertLoad read_expert_load(const std::string& path);

// As a scenario has it: "even", the quoted name of the file, or "[[12, 8], [9, 11]]".
std::string text_of(const ExpertLoad& load);

}  // namespace sim
