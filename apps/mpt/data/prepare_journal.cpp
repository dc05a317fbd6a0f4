#include <mpt/data/prepare_journal.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/data/hash.hpp>
#include <mpt/data/parameters_record.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data::detail {

nlohmann::json to_json(prepare_counts const& counts) {
  return {{"documents", counts.documents}, {"bytes", counts.bytes}, {"tokens", counts.tokens}};
}

prepare_counts counts_from_json(nlohmann::json const& object, std::string_view where) {
  return {count_member(object, "documents", where), count_member(object, "bytes", where),
          count_member(object, "tokens", where)};
}

nlohmann::json as_recorded(nlohmann::json now, nlohmann::json const& then) {
  if (then.is_object() && !then.contains("all_inputs"))
    for (char const* const key : {"all_inputs", "processes"}) now.erase(key);
  if (then.is_object() && then.value("hashes", nlohmann::json()) == nlohmann::json::array())
    now["hashes"] = nlohmann::json::array();
  return now;
}

void require_same_parameters(nlohmann::json const& then, nlohmann::json const& now,
                             std::filesystem::path const& folder) {
  auto const differences = differences_of(then, as_recorded(now, then), folder);
  parallel::require(differences.empty(), folder.native(),
                    ": holds a data set prepared with other parameters:", differences,
                    "\nRepeat those parameters, or choose another folder, or remove this one.");
}

void prepare_journal::create(nlohmann::json const& parameters) {
  parallel::replace_text_file(path_, line_of(parameters));
  open();
}

void prepare_journal::resume(nlohmann::json const& parameters) {
  auto const text = parallel::read_text_file(path_, std::uint64_t{1} << 32);
  std::uint64_t valid = 0;
  std::uint64_t number = 0;
  for (std::size_t end = 0; (end = text.find('\n', valid)) != std::string::npos; valid = end + 1) {
    auto const where = parallel::concat(path_.native(), ":", ++number);
    auto const entry = entry_of(std::string_view(text).substr(valid, end - valid), where);
    if (number == 1) {
      // An interrupted run that finished nothing binds no one.
      if (text.find('\n', end + 1) == std::string::npos) return create(parameters);
      require_same_parameters(entry, parameters, folder_);
      continue;
    }
    add(entry, where);
  }
  parallel::require(number > 0, path_.native(), ": is damaged; remove the folder and start over");
  for (auto const& shard : shards_) {
    auto const& file = shard.zip ? *shard.zip : shard.raw;
    auto const path = folder_ / file.basename;
    parallel::require(
        std::filesystem::exists(path) && std::filesystem::file_size(path) == file.bytes,
        path.native(), ": the journal of the interrupted run lists it with ", file.bytes,
        " bytes; remove the folder and start over");
  }
  parallel::replace_text_file(path_,
                              std::string_view(text).substr(0, valid));  // without a torn last line
  open();
}

void prepare_journal::append(mds_shard const& shard, prepare_position const& position) {
  auto const line = line_of({{"shard", shard.to_json()},
                             {"file", position.file},
                             {"document", position.document},
                             {"offset", position.offset},
                             {"before", to_json(position.before)}});
  // One write of a short line with O_APPEND; a torn one is dropped by resume().
  if (::write(file_.get(), line.data(), line.size()) != static_cast<::ssize_t>(line.size()))
    parallel::files::failure(path_, "cannot write");
  if (!parallel::files::flush(file_.get())) parallel::files::failure(path_, "cannot flush to disk");
}

nlohmann::json prepare_journal::parameters_that_bind() const {
  std::string text;
  for (int tries = 3; text.empty(); --tries) {
    if (!exists()) return nullptr;
    try {
      text = parallel::read_text_file(path_, std::uint64_t{1} << 32);
    } catch (parallel::error const&) {  // its run may begin or finish just now
      if (tries == 0) throw;
    }
    if (tries == 0) return nullptr;
  }
  auto const end = text.find('\n');
  if (end == std::string::npos || text.find('\n', end + 1) == std::string::npos) return nullptr;
  return entry_of(std::string_view(text).substr(0, end), path_.native() + ":1");
}

std::string prepare_journal::line_of(nlohmann::json const& entry) {
  auto const text = python_json(entry);
  return hash_of("xxh3_64", text) + " " + text + "\n";
}

nlohmann::json prepare_journal::entry_of(std::string_view line, std::string const& where) {
  auto const text = line.substr(std::min<std::size_t>(17, line.size()));
  parallel::require(line.substr(0, 16) == hash_of("xxh3_64", text), where,
                    ": the journal is damaged; remove the folder and start over");
  return parse_json(text, where);
}

void prepare_journal::add(nlohmann::json const& entry, std::string const& where) {
  shards_.push_back(mds_shard::from_json(member(entry, "shard", where), where));
  position_.file = count_member(entry, "file", where);
  position_.document = count_member(entry, "document", where);
  position_.offset = count_member(entry, "offset", where);
  position_.before = counts_from_json(member(entry, "before", where), where);
}

void prepare_journal::open() {
  file_ = parallel::descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (file_.get() < 0) parallel::files::failure(path_, "cannot open");
}

}  // namespace mpt::data::detail
