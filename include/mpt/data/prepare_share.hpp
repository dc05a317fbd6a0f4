// `prepare` by several processes, on one machine or on several that share a disk.
//
// Process i of n takes whole input files, those whose middle byte is in the i-th of n equal parts
// of all bytes, and writes an MDS set of them into the sub-folder part-0000i-of-0000n: the set that
// `prepare` makes of these files alone, with its journal, so each process restarts by itself. The
// process that finds all parts complete writes the index of the whole set, whose shards are in the
// sub-folders; the result depends on the inputs and on n, not on the order in which processes run.
// Every part records all inputs and parameters, and parts whose records differ are never merged.
// The result differs from that of one process only at the ends of parts: every part drops its
// incomplete last sample. A part with less than one sample is a set without shards; only a whole
// set without samples is an error. The processes exchange nothing but files; the file system must
// have an atomic rename and flock(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/prepare.hpp>

namespace mpt::data {

/// Process `index` of `count`.
struct process_share {
  std::uint64_t index = 0;
  std::uint64_t count = 1;
};

/// Inputs [begin, end) of a process.
struct input_range {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(input_range const&, input_range const&) = default;
};

/// The inputs that a process takes, by the sizes of all inputs; maybe none. The ranges of all
/// processes together hold each input once, in order.
[[nodiscard]] input_range inputs_of(std::vector<std::uint64_t> const& sizes, process_share share);

/// The result of one process, and whether the whole set is complete.
struct prepare_share_result {
  prepare_result part;  ///< of this process; empty if it takes no input
  std::filesystem::path folder;
  std::uint64_t missing = 0;  ///< parts that other processes have yet to finish
  std::uint64_t samples = 0;  ///< of the whole set, once nothing is missing
};

/// Prepares this process's share of `options.inputs`, which must be equal in all processes, and
/// completes the set if all other parts are complete. Errors: those of `prepare`.
prepare_share_result prepare_share(prepare_options options, process_share share,
                                   std::function<text_encoder()> const& make_encoder);

}  // namespace mpt::data
