#include "sim/layout/expert_load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

bool is_row(const std::vector<double>& row, std::size_t experts) {
  return row.size() == experts && !row.empty() &&
         std::all_of(row.begin(), row.end(), [](double tokens) { return tokens >= 0; }) &&
         std::any_of(row.begin(), row.end(), [](double tokens) { return tokens > 0; });
}

}  // namespace

ExpertLoad::ExpertLoad(Rows rows, std::string file) {
  SIM_CHECK(!rows.empty(), file);
  for (const std::vector<double>& row : rows)
    SIM_CHECK(is_row(row, rows.front().size()), row.size());
  data_ = std::make_shared<const Data>(Data{std::move(file), std::move(rows)});
}

const ExpertLoad::Rows& ExpertLoad::rows() const {
  SIM_CHECK(exists());
  return data_->rows;
}

const std::string& ExpertLoad::file() const {
  SIM_CHECK(exists());
  return data_->file;
}

bool ExpertLoad::operator==(const ExpertLoad& other) const {
  if (data_ == other.data_) return true;
  return exists() && other.exists() && *data_ == *other.data_;
}

std::string text_of(const ExpertLoad& load) {
  if (!load.exists()) return "even";
  if (!load.file().empty()) return yaml_quoted(load.file());
  std::vector<std::string> rows;
  for (const std::vector<double>& row : load.rows())
    rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
  return rows.size() == 1 ? rows.front() : fmt::format("[{}]", fmt::join(rows, ", "));
}

}  // namespace sim
