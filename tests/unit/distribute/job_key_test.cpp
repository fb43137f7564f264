// Records answer one question: what tells two questions apart is named.
#include "sim/distribute/job_key.hpp"

#include "tests/unit/distribute/support.hpp"

using namespace sim;
using test::sample_header;

TEST_CASE("what tells two questions apart is named, with both values", "[distribute]") {
  const JobKey asked = sample_header().question;
  CHECK(difference(asked, asked).empty());
  JobKey other = asked;
  other.command = "sweep";
  CHECK(difference(other, asked) == "they are of stepcast sweep, not of stepcast search");
  other = asked;
  other.version = "1.2.2";
  CHECK(difference(other, asked) == "they are of version 1.2.2, this is version 1.2.3");
  other = asked;
  other.arguments = {"--set", "layout.overlap=false; rm"};
  CHECK(difference(other, asked) ==
        "they were made with the arguments [--set 'layout.overlap=false; rm'], not with [--set "
        "search.top=3]");
  other = asked;
  other.files[1].digest = "00000000000000cc";
  CHECK(difference(other, asked) ==
        "b.yaml has changed since they were made (its digest was 00000000000000cc, is "
        "00000000000000bb)");
  other.files[1].path = "c.yaml";
  CHECK(difference(other, asked) ==
        "they were made with c.yaml (digest 00000000000000cc), not with b.yaml (digest "
        "00000000000000bb)");
  other = asked;
  other.files.push_back({"d.yaml", "00000000000000dd"});
  CHECK(difference(other, asked) == "they were made with d.yaml");
  CHECK(difference(asked, other) == "they were made without d.yaml");
  other = asked;
  other.units = 9;
  CHECK(difference(other, asked) == "they are of 9 units of work, not of 10");
}

TEST_CASE("where a file lies does not matter, what it says does", "[distribute]") {
  const JobKey asked = sample_header().question;
  JobKey other = asked;
  other.scenario = "elsewhere/a.yaml";
  other.files[0].path = "elsewhere/a.yaml";
  CHECK(difference(other, asked).empty());
  CHECK(digest_of(other) == digest_of(asked));
  other.files[0].digest = "00000000000000ff";
  CHECK(digest_of(other) != digest_of(asked));
}

TEST_CASE("a question is asked again by a command that a shell understands", "[distribute]") {
  JobKey question = sample_header().question;
  question.arguments = {"--set", "search.zero_stage=[0,1]", "--set", "name=it's"};
  CHECK(command_line(question, {"--shard", "1/2"}) ==
        "stepcast search a.yaml --set 'search.zero_stage=[0,1]' --set 'name=it'\\''s' --shard 1/2");
}
