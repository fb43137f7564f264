// Files of records that belong together, as one book.
#pragma once

#include <string>
#include <vector>

#include "sim/distribute/records.hpp"

namespace sim {

// The header that all of them have, but for the part. Throws InputError for a file that answers
// another question than the first, naming both.
RecordHeader common_header(const std::vector<std::string>& paths);

// Throws InputError where the job's scenario is not to be found here: its path counts from the
// folder in which the records were made.
void check_reachable(const RecordHeader& header);

// All records of all parts. Throws InputError that names each part which is missing or unfinished,
// with the command that brings it; and for records that contradict each other.
ResultCache merge_records(const std::vector<std::string>& paths, const RecordHeader& header,
                          const ReadAnswer& read);

}  // namespace sim
