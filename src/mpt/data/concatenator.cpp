#include <mpt/data/concatenator.hpp>

namespace mpt::data {

concatenator::concatenator(concatenator_options options, token_position start)
    : options_(std::move(options)), next_document_(start.document), skipped_ids_(start.offset) {
  parallel::require(options_.sample_ids > 0, "the number of ids in a sample must be positive");
}

}  // namespace mpt::data
