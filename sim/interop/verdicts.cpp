#include "sim/interop/verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "sim/config/data_folder.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

std::vector<std::string> read_names(const ValueReader& value) {
  if (!value.is_list()) return {value.text()};
  std::vector<std::string> names;
  for (const ValueReader& item : value.list())
    names.push_back(item.text());
  return names;
}

void add_key(const ValueReader& place, KnownKey key, KeyList& list) {
  const std::string rest = key.name.substr(0, key.name.find('*'));
  if (key.name.empty() || rest.size() + 1 < key.name.size())
    place.problem(fmt::format("'{}' is no key, and none with a '*' at its end", key.name));
  if (const KnownKey* above = known_key(list.keys, rest))
    place.problem(fmt::format("'{}' is decided above, by '{}'", key.name, above->name));
  list.keys.push_back(std::move(key));
}

// read_row(): {refused: [a, b], off: "0", because: "..."}.
void read_row(const ObjectReader& in, KeyList& list) {
  std::optional<ValueReader> names;
  KnownKey row;
  for (const auto& word : words_of(Verdict{})) {
    const std::optional<ValueReader> found = in.find(word.text);
    if (found && names) found->problem("a row has one verdict");
    if (!found) continue;
    names = found;
    row.verdict = word.value;
  }
  if (!names) return in.problem("needs one of refused, noted, unmodelled, ignored");
  if (row.verdict != Verdict::ignored) {
    row.neutral = in.text_or("off", "");
    row.reason = in.text("because");
  }
  for (std::string& name : read_names(*names)) {
    row.name = std::move(name);
    add_key(*names, row, list);
  }
}

std::string reason_of(const KnownKey& row, std::string_view key) {
  std::string reason = row.reason;
  const std::string_view name = key.starts_with("--") ? key.substr(2) : key;
  if (const std::size_t at = reason.find("{}"); at != std::string::npos)
    reason.replace(at, 2, name);
  return reason;
}

bool is_told(Verdict verdict) {
  return verdict == Verdict::noted || verdict == Verdict::unmodelled;
}

}  // namespace

std::vector<KeyList> read_verdicts(const Document& file) {
  const ObjectReader root = file.root_object();
  std::vector<KeyList> lists;
  for (const std::string& name : root.keys()) {
    KeyList& list = lists.emplace_back(KeyList{.name = name, .keys = {}});
    for (const ValueReader& row : root.list(name))
      read_row(row.object(), list);
  }
  file.finish();
  return lists;
}

const std::vector<KeyList>& verdicts(std::string_view program) {
  static std::mutex guard;
  static std::map<std::string, std::vector<KeyList>, std::less<>> read;
  const std::scoped_lock lock{guard};
  auto found = read.find(program);
  if (found == read.end()) {
    const std::string path = program_data_file(fmt::format("data/interop/{}.yaml", program));
    found = read.emplace(program, read_verdicts(Document::load(path))).first;
  }
  return found->second;
}

std::span<const KnownKey> known_keys(std::string_view program, std::string_view list) {
  const std::vector<KeyList>& lists = verdicts(program);
  const auto found = std::ranges::find(lists, list, &KeyList::name);
  return found == lists.end() ? std::span<const KnownKey>{} : std::span{found->keys};
}

bool fits(const KnownKey& row, std::string_view key) {
  if (!row.name.ends_with('*')) return row.name == key;
  return key.starts_with(std::string_view{row.name}.substr(0, row.name.size() - 1)) &&
         key.find_first_of(" \t\n") == std::string_view::npos;
}

const KnownKey* known_key(std::span<const KnownKey> rows, std::string_view key) {
  const auto found =
      std::ranges::find_if(rows, [&](const KnownKey& row) { return fits(row, key); });
  return found == rows.end() ? nullptr : &*found;
}

void judge_key(const KnownKey& row, const std::optional<ValueReader>& value, bool off,
               const std::string& name, Imported& result) {
  if (!value || off || row.verdict == Verdict::ignored)
    result.ignored.push_back(name);
  else if (is_told(row.verdict))
    result.notes.push_back({name, reason_of(row, name), row.verdict == Verdict::unmodelled});
  else
    value->problem(fmt::format("{}: {}", name, reason_of(row, name)));
}

void judge_keys(const ObjectReader& from, std::span<const KnownKey> known, std::string_view prefix,
                Imported& result) {
  for (const std::string& key : from.unasked_keys()) {
    const KnownKey* row = known_key(known, key);
    if (row == nullptr) continue;
    const std::optional<ValueReader> value = from.find(key);
    judge_key(*row, value, value && is_neutral(*value, row->neutral), std::string{prefix} + key,
              result);
  }
  // So that a misspelt key may have been meant for one of these.
  for (const KnownKey& row : known)
    if (!row.name.ends_with('*')) static_cast<void>(from.find(row.name));
}

void note_unknown_keys(const ObjectReader& from, std::string_view prefix, Imported& result) {
  for (const std::string& key : from.unasked_keys()) {
    const std::optional<ValueReader> value = from.find(key);
    const std::string name = std::string{prefix} + key;
    if (!value || is_neutral(*value, ""))
      result.ignored.push_back(name);
    else
      result.notes.push_back({name, "not known here: what it changes is not forecast", true});
  }
}

}  // namespace sim
