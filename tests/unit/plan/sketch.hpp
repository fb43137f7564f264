// Programs of a few operators, written down by hand.
#pragma once

#include <vector>

#include "sim/program/program.hpp"

namespace sim::test {

class Sketch {
 public:
  explicit Sketch(std::vector<Buffer> buffers) {
    program.names = {"op"};
    program.buffers = std::move(buffers);
    program.first_dependency = {0};
    program.first_buffer_use = {0};
  }

  void add(OpKind kind, Stream stream, const std::vector<OpId>& after,
           const std::vector<BufferUse>& uses) {
    program.kind.push_back(kind);
    program.stream.push_back(stream);
    program.pass.push_back(Pass::forward);
    program.work.push_back(0);
    program.action.push_back(Action::forward);
    program.subject.push_back(Program::no_subject);
    program.label.emplace_back();
    program.dependency.insert(program.dependency.end(), after.begin(), after.end());
    program.buffer_use.insert(program.buffer_use.end(), uses.begin(), uses.end());
    program.first_dependency.push_back(static_cast<std::uint32_t>(program.dependency.size()));
    program.first_buffer_use.push_back(static_cast<std::uint32_t>(program.buffer_use.size()));
  }

  Program program;
};

}  // namespace sim::test
