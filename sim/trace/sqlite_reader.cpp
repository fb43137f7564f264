#include "sim/trace/sqlite_reader.hpp"

#include <fmt/format.h>

#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/trace/read_trace.hpp"

namespace sim {

SqliteReader::SqliteReader(const std::string& path) : name_{path} {
  const int result = sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READONLY, nullptr);
  if (result != SQLITE_OK) {
    sqlite3_close(database_);
    throw InputError{SourcePosition{path, 0, 0}, "cannot be opened"};
  }
  begin();
}

SqliteReader::SqliteReader(std::string_view content, std::string name) : name_{std::move(name)} {
  sqlite3_open_v2(":memory:", &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, nullptr);
  const auto size = static_cast<sqlite3_int64>(content.size());
  auto* const bytes =  // read only: SQLite writes nothing there
      reinterpret_cast<unsigned char*>(const_cast<char*>(content.data()));
  sqlite3_deserialize(database_, "main", bytes, size, size, SQLITE_DESERIALIZE_READONLY);
  begin();
}

SqliteReader::~SqliteReader() {
  sqlite3_close(database_);
}

// Nothing that a schema names is run: no views, no triggers, no functions.
void SqliteReader::begin() {
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  try {
    query("SELECT name FROM sqlite_master WHERE type = 'table'",
          [&](const Row& row) { tables_.emplace(row.text(0)); });
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

void SqliteReader::fail(const std::string& what) const {
  throw InputError{SourcePosition{name_, 0, 0}, what};
}

void SqliteReader::query(const std::string& text, const std::function<void(const Row&)>& take) {
  sqlite3_stmt* made = nullptr;
  const int prepared = sqlite3_prepare_v2(database_, text.c_str(), -1, &made, nullptr);
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement{made, sqlite3_finalize};
  if (prepared != SQLITE_OK)
    fail(fmt::format("a database of SQLite that cannot be read: {}", sqlite3_errmsg(database_)));
  const Row row{statement.get()};
  std::uint64_t count = 0;
  while (true) {
    const int result = sqlite3_step(statement.get());
    if (result == SQLITE_DONE) return;
    if (result != SQLITE_ROW)
      fail(fmt::format("a database of SQLite that is damaged after {} rows of '{}': {}", count,
                       text.substr(text.rfind(' ') + 1), sqlite3_errmsg(database_)));
    take(row);
    ++count;
  }
}

std::set<std::string> SqliteReader::columns(const std::string& table) {
  std::set<std::string> names;
  query(fmt::format("PRAGMA table_info(\"{}\")", table),
        [&](const Row& row) { names.emplace(row.text(1)); });
  return names;
}

void SqliteReader::rows(const std::string& table, const std::vector<std::string>& columns,
                        const std::function<void(const Row&)>& take) {
  std::string list;
  for (const std::string& column : columns)
    list += fmt::format("{}{}", list.empty() ? "" : ", ",
                        column == "NULL" ? column : fmt::format("\"{}\"", column));
  query(fmt::format("SELECT {} FROM {}", list, table), take);
}

std::int64_t SqliteReader::Row::integer(int column, std::int64_t fallback) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER
             ? sqlite3_column_int64(statement_, column)
             : fallback;
}

bool SqliteReader::Row::is_text(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_TEXT;
}

std::string_view SqliteReader::Row::text(int column) const {
  if (!is_text(column)) return {};
  const auto* const begin = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (begin == nullptr) return {};
  return {begin, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

bool is_sqlite(std::string_view head) {
  return head.starts_with("SQLite format 3");
}

}  // namespace sim
