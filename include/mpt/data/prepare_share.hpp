// `prepare` by several processes, on one machine or on several that share a disk.
//
// Process i of n takes whole input files, those whose middle byte lies in the i-th of n equal parts
// of all bytes, and writes them as an MDS set of its own into the sub-folder part-0000i-of-0000n:
// what `prepare` makes of these files alone, with its journal, so each process restarts by itself.
// Whoever finds that all parts are whole writes the index over them, whose shards lie in the
// sub-folders; the result depends on the inputs and on n, not on who ran when. Every part records
// all inputs and parameters, and parts whose records differ are never made one set. It differs from
// one process's only at the seams: every part drops its own incomplete last sample; a part with
// less than one sample is a set without shards, and only a whole without a sample is an error.
// Nothing but files is exchanged; the disk must keep rename atomic and honour flock(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include <mpt/data/mds_reader.hpp>
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

/// Which inputs, by their sizes, a process takes; maybe none. Over all processes: each input once,
/// in order.
[[nodiscard]] input_range inputs_of(std::vector<std::uint64_t> const& sizes, process_share share);

/// What one process has done, and whether the whole set is there now.
struct prepare_share_result {
  prepare_result own;  ///< of its part; empty when no input fell to it
  std::filesystem::path folder;
  std::uint64_t missing = 0;  ///< parts that other processes have yet to finish
  std::uint64_t samples = 0;  ///< of the whole set, once nothing is missing
};

/// Prepares this process's share of `options.inputs`, which all processes give alike, and completes
/// the set when it is the last one. Errors as of `prepare`.
prepare_share_result prepare_share(prepare_options options, process_share share,
                                   std::function<text_encoder()> const& make_encoder);

}  // namespace mpt::data
