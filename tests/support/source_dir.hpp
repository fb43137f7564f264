// Where the source tree lies, for tests that read the files it ships. A function, so that the path
// is a macro of one translation unit only: all other objects compile to the same bytes in every
// checkout.
#pragma once

#include <string>

namespace sim::test {

std::string source_dir();  // absolute, without a slash at its end

}  // namespace sim::test
