// Turns raw text into an MDS set of token ids: tokenise in parallel, concatenate, cut, write.
//
// One thread reads documents and gives batches of raw rows to workers, which parse and tokenise
// them; the same thread passes the results in order through ONE concatenator to the writer. So the
// output has the same bytes for any number of workers. Documents follow the order of `inputs`.
// Inputs may be deferred, on another machine: each is fetched when its turn comes, and none that a
// set of `max_samples` does not need.
//
// A run may be killed at any moment and repeated (see prepare_journal.hpp): it continues after the
// last finished shard and ends with the same bytes. Of the input before that point only the current
// file is read again, and it is not tokenised. index.json is written last, so no reader mistakes
// half a set for a complete one. Memory: one shard, and about 4 batches per worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/concatenator.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/ordered_workers.hpp>
#include <mpt/data/prepare_journal.hpp>

namespace mpt::data {

/// Appends the ids of a text to a vector. Each worker has its own encoder.
using text_encoder = std::function<void(std::string_view, std::vector<std::int32_t>&)>;

/// The progress of a run; sums include the work of earlier, interrupted runs.
struct prepare_progress {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;   ///< UTF-8 bytes of text
  std::uint64_t tokens = 0;  ///< includes bos, eos and the last tokens, which fill no sample
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;       ///< finished shards
  std::uint64_t input_read = 0;   ///< bytes read from the input files, before decompression
  std::uint64_t input_total = 0;  ///< bytes of all input files
  double seconds = 0;             ///< time of this run alone, without earlier runs
};

/// The documents of the inputs that a set holds: all of them, or, to separate evaluation data from
/// training data, one of every k documents (held_out) or the others (rest).
enum class document_part { all, held_out, rest };

/// The known properties of input files that are downloaded when their turn comes.
struct deferred_files {
  std::vector<std::string> identities{};  ///< of each input, by name and content, for the record
  std::vector<std::uint64_t> bytes{};     ///< size of each input
  std::function<void(std::size_t input)> fetch{};  ///< called before an input is opened
};

struct prepare_options {
  std::vector<std::filesystem::path> inputs{};
  std::optional<deferred_files> deferred_inputs{};  ///< nothing: all inputs are here
  std::filesystem::path out_root{};
  std::string split{};      ///< sub-folder of out_root; empty: out_root itself holds index.json
  std::string tokenizer{};  ///< identity of the tokenizer (a digest, a name), compared on a restart
  concatenator_options concat{};
  std::string compression{};                                         ///< "", "zstd", "zstd:LEVEL"
  std::vector<std::string> hashes{};                                 ///< see hash.hpp
  std::optional<std::uint64_t> size_limit = std::uint64_t{1} << 26;  ///< most bytes of a raw shard
  std::optional<std::uint64_t>
      max_samples{};  ///< the set ends after this many; no input is read after
  document_part part = document_part::all;
  std::uint64_t hold_out_every = 20;  ///< k, for held_out and rest
  std::uint64_t first_input =
      0;  ///< number of inputs before this process's inputs in the whole set; `part` needs it
  std::uint64_t processes =
      0;  ///< number of processes that write the set together; 0: one writes it alone
  std::vector<std::filesystem::path> all_inputs{};  ///< inputs of all these processes together
  std::size_t workers = 1;
  std::uint64_t batch_bytes = std::uint64_t{1} << 18;  ///< text bytes of a worker's batch
  document_options documents{};
  bool may_be_empty = false;  ///< whether a set without samples is allowed, as for a process's part
  std::function<void(prepare_progress const&)> progress{};  ///< called after every batch
};

/// How much of the set existed before.
enum class prepare_status { written, resumed, already_complete };

/// The set that was written.
struct prepare_result {
  prepare_status status = prepare_status::written;
  std::filesystem::path folder;  ///< holds index.json
  prepare_progress total;
};

namespace detail {

/// The parameters that must be equal for a run to continue an earlier run.
[[nodiscard]] nlohmann::json prepare_parameters(prepare_options const& options);

}  // namespace detail

/// Prepares a data set. `make_encoder` is called once for every worker, in the calling thread.
/// Throws `parallel::error` on bad input (naming file and line) and when the folder holds another
/// set. Finished shards stay, and the next call with the same parameters continues after them.
prepare_result prepare(prepare_options const& options,
                       std::function<text_encoder()> const& make_encoder);

}  // namespace mpt::data
