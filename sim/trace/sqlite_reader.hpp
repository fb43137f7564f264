// A SQLite database of another program, read only.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

class SqliteReader {
 public:
  // Throws InputError: it cannot be opened, or is no database.
  explicit SqliteReader(const std::string& path);
  // Opens a database in memory. `content` outlives the reader.
  SqliteReader(std::string_view content, std::string name);
  ~SqliteReader();
  SqliteReader(const SqliteReader&) = delete;
  SqliteReader& operator=(const SqliteReader&) = delete;

  const std::string& name() const { return name_; }
  const std::set<std::string>& tables() const { return tables_; }
  bool has(const std::string& table) const { return tables_.count(table) > 0; }
  std::set<std::string> columns(const std::string& table);

  // A row of a query: integers and texts by place. What is NULL or of another type is the fallback.
  class Row {
   public:
    explicit Row(sqlite3_stmt* statement) : statement_{statement} {}
    std::int64_t integer(int column, std::int64_t fallback = -1) const;
    std::string_view text(int column) const;  // until the next row
    bool is_text(int column) const;

   private:
    sqlite3_stmt* statement_;
  };
  // Calls `take` for each row of these columns of a table; "NULL" for a column that it has not.
  // Throws InputError: the database is damaged.
  void rows(const std::string& table, const std::vector<std::string>& columns,
            const std::function<void(const Row&)>& take);

 private:
  void begin();
  [[noreturn]] void fail(const std::string& what) const;
  void query(const std::string& text, const std::function<void(const Row&)>& take);

  std::string name_;
  sqlite3* database_ = nullptr;
  std::set<std::string> tables_;
};

}  // namespace sim
