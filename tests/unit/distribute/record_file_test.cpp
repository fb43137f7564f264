// The file that grows: what is refused, what is gone on with.
#include "sim/distribute/record_file.hpp"

#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "tests/unit/distribute/support.hpp"

using namespace sim;
using namespace sim::test;

namespace {

struct Opened {
  ResultCache book;
  RecordFile file;
  explicit Opened(const std::string& path, bool resume = false,
                  const RecordHeader& header = sample_header())
      : file{path, header, resume, read_value, book} {}
};

std::string refusal(const std::string& path, bool resume,
                    const RecordHeader& header = sample_header()) {
  return problem_of([&] { Opened{path, resume, header}; });
}

}  // namespace

TEST_CASE("what was written is known when the file is opened again", "[distribute]") {
  const TemporaryFile file{"records"};
  {
    Opened first{file.path};
    first.file.append(3, value(30));
    first.file.append(5, value(50));
  }
  Opened second{file.path, true};
  CHECK(second.book.size() == 2);
  second.file.append(6, value(60));
  second.file.finish();
  second.file.finish();
  CHECK(content_of(file.path) == header_line(sample_header()) + record_line(3, value(30)) +
                                     record_line(5, value(50)) + record_line(6, value(60)) +
                                     finished_line());
}

TEST_CASE("a line that a killed worker has cut is removed", "[distribute]") {
  const TemporaryFile file{"cut"};
  const std::string whole = header_line(sample_header()) + record_line(3, value(30));
  file.write(whole + "{\"unit\":4,\"ans");
  {
    Opened again{file.path, true};
    CHECK(again.book.size() == 1);
    again.file.append(4, value(40));
  }
  CHECK(content_of(file.path) == whole + record_line(4, value(40)));
  // Killed within the first line.
  file.write(whole.substr(0, 20));
  { const Opened again{file.path, true}; }
  CHECK(content_of(file.path) == header_line(sample_header()));
}

TEST_CASE("a stranger's file is never cut, whatever its lines", "[distribute]") {
  const TemporaryFile file{"stranger"};
  for (const char* text : {"my notes", "{\"stepcast", "{\"stepcast_records\":7", "\x01\xff"}) {
    if (header_line(sample_header()).starts_with(text)) continue;  // this may be a header cut short
    file.write(text);
    CHECK(refusal(file.path, true) ==
          "this is no file of records: its first line is not their header");
    CHECK(content_of(file.path) == text);
  }
}

TEST_CASE("a file that exists is not gone on with unless that was asked", "[distribute]") {
  const TemporaryFile file{"exists"};
  { const Opened first{file.path}; }
  CHECK(refusal(file.path, false) ==
        "exists already; go on with what it holds: --resume; or remove it");
  CHECK(refusal(file.path, true) == "no problem");
  CHECK(refusal("/no/such/folder/r", false) == "cannot be written: No such file or directory");
  CHECK(refusal("/dev/null", false) == "is no ordinary file: records must be readable again");
}

TEST_CASE("records of another question or part are refused and stay as they are", "[distribute]") {
  const TemporaryFile file{"other"};
  {
    Opened first{file.path};
    first.file.append(3, value(30));
  }
  const std::string before = content_of(file.path);
  RecordHeader other = sample_header();
  other.question.arguments = {"--set", "search.top=4"};
  CHECK(refusal(file.path, true, other) ==
        "its records answer another question: they were made with the arguments [--set "
        "search.top=3], not with [--set search.top=4]; choose another file, or remove this one");
  CHECK(refusal(file.path, true, sample_header({1, 2})) ==
        "its records are of part 0/1, not of part 1/2");
  CHECK(content_of(file.path) == before);
}

TEST_CASE("two processes do not write to one file", "[distribute]") {
  const TemporaryFile file{"locked"};
  const Opened first{file.path};
  CHECK(refusal(file.path, true) ==
        "another process is writing to it; give each worker its own part: --shard i/n");
}

TEST_CASE("threads that write at once write whole lines", "[distribute]") {
  const TemporaryFile file{"threads"};
  RecordHeader header = sample_header();
  header.question.units = 400;
  {
    ResultCache book;
    RecordFile records{file.path, header, false, read_value, book};
    std::vector<std::jthread> writers;
    for (std::uint64_t writer = 0; writer < 4; ++writer)
      writers.emplace_back([&records, writer] {
        for (std::uint64_t i = 0; i < 100; ++i)
          records.append(100 * writer + i, value(i));
      });
  }
  ResultCache book;
  const RecordsRead got = parse_records(content_of(file.path), file.path, read_value, book);
  CHECK(book.size() == 400);
  CHECK(got.intact == content_of(file.path).size());
}

TEST_CASE("a disk that is full is an error, and what was written can be gone on with",
          "[distribute]") {
  const TemporaryFile file{"full"};
  const std::string head = header_line(sample_header());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  std::string said;
  {
    Opened opened{file.path};
    opened.file.append(3, value(30));
    // Room for a part of the next line.
    const rlimit small{content_of(file.path).size() + 5, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        opened.file.append(4, value(40));
      } catch (const std::runtime_error& error) {
        said = error.what();
      }
    }
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    // Nothing is written behind a part of a line, even when there is room again.
    CHECK_THROWS_AS(opened.file.append(5, value(50)), std::runtime_error);
  }
  std::signal(SIGXFSZ, handler);
  CHECK(said.find("cannot write to " + file.path + ": File too large") == 0);
  CHECK(said.find("--resume") != std::string::npos);
  Opened again{file.path, true};
  CHECK(again.book.size() == 1);
  CHECK(content_of(file.path) == head + record_line(3, value(30)));
}
