#include "sim/rows/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/reader.hpp"
#include "sim/rows/measured_rows.hpp"

namespace sim {
namespace {

std::vector<std::string> read_texts(const ObjectReader& in, std::string_view key) {
  std::vector<std::string> texts;
  if (!in.has(key)) return texts;
  for (const ValueReader& entry : in.list(key))
    texts.push_back(entry.text());
  return texts;
}

MeasuredRow read_row(const ObjectReader& in, const std::string& path) {
  MeasuredRow row;
  row.id = in.text("id");
  row.scenario = resolve_path(path, in.text("scenario"));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(row.scenario, ignored))
    in.problem("scenario", fmt::format("there is no file {}", row.scenario));
  row.use = in.word<RowUse>("use");
  row.outcome = in.word_or("outcome", Outcome::ran);
  if (row.outcome == Outcome::ran) {
    row.measured = in.duration("measured");
    if (row.measured <= Duration{} && in.has("measured"))
      in.problem("measured", "must be more than 0");
  } else if (in.has("measured")) {
    in.problem("measured", "a run that ended out of memory has no time");
  }
  row.evidence = in.text_or("evidence", "");
  row.assumptions = read_texts(in, "assumptions");
  return row;
}

void read_rows(const ObjectReader& top, const std::string& path, MeasuredSet& set) {
  const std::vector<ValueReader> rows = top.list("rows");
  if (rows.empty()) top.problem("rows", "is an empty list");
  for (const ValueReader& entry : rows) {
    const ObjectReader in = entry.object();
    MeasuredRow row = read_row(in, path);
    const auto same = [&](const MeasuredRow& other) { return other.id == row.id; };
    if (std::any_of(set.rows.begin(), set.rows.end(), same))
      in.problem("id", fmt::format("a row above has the id '{}' too", row.id));
    set.rows.push_back(std::move(row));
  }
}

ErrorBound read_bound(const ObjectReader& in, const std::string& set) {
  constexpr IntegerRange rows{.min = 0, .max = 1 << 20};
  constexpr RealRange error{.min = 0, .max = 1e6};
  ErrorBound bound{.set = set};
  bound.scored = static_cast<int>(in.integer("scored", rows));
  if (bound.scored > 0) {
    bound.median_abs_error = in.real("median_abs_error", error);
    bound.worst_abs_error = in.real("worst_abs_error", error);
  }
  bound.memory_scored = static_cast<int>(in.integer_or("memory_scored", 0, rows));
  if (bound.memory_scored > 0) {
    bound.median_memory_error = in.real("median_memory_error", error);
    bound.worst_memory_error = in.real("worst_memory_error", error);
  }
  bound.fits_right = static_cast<int>(in.integer_or("fits_right", 0, rows));
  bound.layout_groups = static_cast<int>(in.integer_or("layout_groups", 0, rows));
  bound.best_in_favourites = static_cast<int>(
      in.integer_or("best_in_favourites", 0, {.min = 0, .max = bound.layout_groups}));
  return bound;
}

}  // namespace

MeasuredSet load_measured_set(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  MeasuredSet set;
  set.name = top.text("name");
  set.title = top.text("title");
  set.source = top.text("source");
  set.quantity = top.word<Quantity>("quantity");
  if (set.quantity == Quantity::layer)
    set.layer = static_cast<int>(top.integer("layer", {.min = 0, .max = 10'000}));
  set.in_intervals = top.boolean_or("in_intervals", true);
  set.assumptions = read_texts(top, "assumptions");
  if (!top.has("table")) {
    read_rows(top, path, set);
    document.finish();
    return set;
  }
  if (set.quantity != Quantity::step) top.problem("table", "goes with quantity step only");
  const std::string table = resolve_path(path, top.text("table"));
  RowContext context;
  if (top.has("base")) context.base = read_base(top.object("base"));
  document.finish();
  set.rows = read_runs(CsvTable::load(table), BadRows::refuse, context);
  set.data_folder = resolve_path(path, "../../..");
  return set;
}

namespace {

MeasuredSet load_table(const std::string& path, const std::string& data_folder,
                       bool drops_framework) {
  MeasuredSet set;
  set.name = std::filesystem::path{path}.stem().string();
  set.title = "Measured runs";
  set.source = path;
  set.data_folder = data_folder;
  const RowContext context{.base = {},
                           .words = load_words(data_folder + "/validation/words.yaml"),
                           .drops_framework = drops_framework};
  set.rows = read_runs(CsvTable::load(path, Misfits::set_aside), BadRows::list, context);
  return set;
}

}  // namespace

MeasuredSet load_table_set(const std::string& path, const std::string& data_folder) {
  return load_table(path, data_folder, false);
}

MeasuredSet load_unnamed_table(const std::string& path, const std::string& data_folder) {
  return load_table(path, data_folder, true);
}

std::vector<ErrorBound> load_bounds(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader sets = document.root_object().object("sets");
  std::vector<ErrorBound> bounds;
  for (const std::string& name : sets.keys())
    bounds.push_back(read_bound(sets.object(name), name));
  static_cast<void>(document.root_object().has("intervals"));  // of load_interval_bounds()
  document.finish();
  return bounds;
}

IntervalBounds load_interval_bounds(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader in = document.root_object().object("intervals");
  constexpr RealRange share{.min = 0, .max = 1};
  const IntervalBounds bounds{.covered = in.real("covered", share),
                              .covered_of_set = in.real("covered_of_set", share),
                              .unnamed_least = in.real("unnamed_least", share),
                              .unnamed_most = in.real("unnamed_most", share),
                              .anchored_error = in.real("anchored_error", share),
                              .anchored_within = in.real("anchored_within", share)};
  static_cast<void>(document.root_object().has("sets"));  // of load_bounds()
  document.finish();
  return bounds;
}

std::vector<std::string> measured_sets(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{folder, ignored})
    if (std::filesystem::is_regular_file(entry.path() / "measured.yaml", ignored))
      names.push_back(entry.path().filename().string());
  if (names.empty())
    throw InputError{SourcePosition{folder, 0, 0}, "holds no set (a folder with measured.yaml)"};
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sim
