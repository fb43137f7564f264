#include "sim/program/unroll.hpp"

#include "sim/program/happens_before.hpp"
#include "sim/program/program_builder.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

OpId add(ProgramBuilder& builder, Stream stream) {
  return builder.add(OpKind::elementwise, stream, Pass::forward, 0, {}, {});
}

}  // namespace

TEST_CASE("what waited for an operator left out waits for what that waited for", "[program]") {
  ProgramBuilder builder{0};
  builder.kernel({});
  builder.name("op");
  const OpId a = add(builder, Stream::compute);
  builder.wait(Stream::data_comm, a);
  const OpId b = add(builder, Stream::data_comm);
  builder.wait(Stream::tensor_comm, b);
  add(builder, Stream::tensor_comm);  // c waits for b
  add(builder, Stream::data_comm);    // d follows b
  const Program program = builder.finish();

  const Program all = unroll(program, {std::vector<bool>(4, true)});
  CHECK(all.dependency == program.dependency);
  CHECK(all.first_dependency == program.first_dependency);

  const Program without = unroll(program, {{true, false, true, true}});
  REQUIRE(without.size() == 3);
  REQUIRE(without.dependencies(OpId{1}).size() == 1);
  CHECK(without.dependencies(OpId{1})[0] == a);
  // Operators that b had waited for, d had waited for, too.
  REQUIRE(without.dependencies(OpId{2}).size() == 1);
  CHECK(without.dependencies(OpId{2})[0] == a);
}

TEST_CASE("steps follow one another on their streams", "[program]") {
  ProgramBuilder builder{0};
  builder.kernel({});
  builder.name("op");
  const OpId a = add(builder, Stream::compute);
  builder.wait(Stream::data_comm, a);
  add(builder, Stream::data_comm);
  builder.host_waits_for(a);
  add(builder, Stream::compute);
  const Program program = builder.finish();
  const Program two = unroll(program, {std::vector<bool>(3, true), std::vector<bool>(3, true)});
  REQUIRE(two.size() == 6);
  REQUIRE(two.dependencies(OpId{4}).size() == 1);
  CHECK(two.dependencies(OpId{4})[0] == OpId{3});
  CHECK(two.host_waits == std::vector<HostWait>{{OpId{2}, OpId{0}}, {OpId{5}, OpId{3}}});
}
