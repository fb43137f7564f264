#include "real/launch/inject.hpp"

#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("a fault to inject names kind, rank and step", "[launch]") {
  const std::optional<Fault> fault = parse_fault("hang:12:step 340");
  REQUIRE(fault);
  REQUIRE(fault->kind == FaultKind::hang);
  REQUIRE(fault->rank == 12);
  REQUIRE(fault->step == 340);
  REQUIRE_FALSE(fault->before_joining);
  REQUIRE(parse_fault("exit:0:start")->before_joining);
  REQUIRE_FALSE(parse_fault(""));
}

TEST_CASE("a fault that cannot be read is refused", "[launch]") {
  for (const std::string text : {"kill", "kill:1", "kill:1:", "kill:x:step 1", "kill:1:step",
                                 "kill:1:step 1x", "kill:-1:step 1", "melt:1:step 1", ":1:start"})
    REQUIRE_THROWS_WITH(parse_fault(text),
                        "--inject is \"" + text +
                            "\": KIND:RANK:step N or KIND:RANK:start is wanted, KIND being kill, "
                            "hang, memory, fail or exit");
}
