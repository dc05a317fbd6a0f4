#include <mpt/data/prepare_journal.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>
#include <mpt/data/records.hpp>

namespace mpt::data::detail {

nlohmann::json to_json(prepare_counts const& counts) {
  return {{"documents", counts.documents}, {"bytes", counts.bytes}, {"tokens", counts.tokens}};
}

prepare_counts counts_from_json(nlohmann::json const& object, std::string_view location) {
  return {count_member(object, "documents", location), count_member(object, "bytes", location),
          count_member(object, "tokens", location)};
}

nlohmann::json as_recorded(nlohmann::json current, nlohmann::json const& recorded) {
  if (recorded.is_object() && !recorded.contains("all_inputs"))
    for (char const* const key : {"all_inputs", "processes"}) current.erase(key);
  if (recorded.is_object() && recorded.value("hashes", nlohmann::json()) == nlohmann::json::array())
    current["hashes"] = nlohmann::json::array();
  if (recorded.is_object() && recorded.contains("max_samples") && !current.contains("max_samples"))
    current["max_samples"] = nullptr;  // all samples, which differs from the recorded number
  return current;
}

void require_same_parameters(nlohmann::json const& recorded, nlohmann::json const& current,
                             std::filesystem::path const& folder) {
  auto const differences = parameter_differences(recorded, as_recorded(current, recorded), folder);
  parallel::require(differences.empty(), folder.native(),
                    ": holds a data set prepared with other parameters:", differences,
                    "\nRepeat those parameters, or choose another folder, or remove this one.");
}

void prepare_journal::create(nlohmann::json const& parameters) {
  parallel::replace_text_file(path_, format_line(parameters));
  open();
}

void prepare_journal::resume(nlohmann::json const& parameters) {
  auto const text = parallel::read_text_file(path_, std::uint64_t{1} << 32);
  std::uint64_t valid = 0;
  std::uint64_t number = 0;
  for (std::size_t end = 0; (end = text.find('\n', valid)) != std::string::npos; valid = end + 1) {
    auto const location = parallel::concat(path_.native(), ":", ++number);
    auto const entry = parse_line(std::string_view(text).substr(valid, end - valid), location);
    if (number == 1) {
      // The parameters of an interrupted run that finished no shard need not be repeated.
      if (text.find('\n', end + 1) == std::string::npos) return create(parameters);
      require_same_parameters(entry, parameters, folder_);
      continue;
    }
    add(entry, location);
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
  auto const line = format_line({{"shard", shard.to_json()},
                                 {"file", position.file},
                                 {"document", position.document},
                                 {"offset", position.offset},
                                 {"before", to_json(position.counts)}});
  // One write of a short line with O_APPEND; a torn one is dropped by resume().
  if (::write(file_.get(), line.data(), line.size()) != static_cast<::ssize_t>(line.size()))
    parallel::files::failure(path_, "cannot write");
  if (!parallel::files::flush(file_.get())) parallel::files::failure(path_, "cannot flush to disk");
}

nlohmann::json prepare_journal::binding_parameters() const {
  std::string text;
  for (int tries_left = 3; text.empty(); --tries_left) {
    if (!exists()) return nullptr;
    try {
      text = parallel::read_text_file(path_, std::uint64_t{1} << 32);
    } catch (parallel::error const&) {  // the run of this journal may just be starting or finishing
      if (tries_left == 0) throw;
    }
    if (tries_left == 0) return nullptr;
  }
  auto const end = text.find('\n');
  if (end == std::string::npos || text.find('\n', end + 1) == std::string::npos) return nullptr;
  return parse_line(std::string_view(text).substr(0, end), path_.native() + ":1");
}

std::string prepare_journal::format_line(nlohmann::json const& entry) {
  auto const text = python_json(entry);
  return hash_of("xxh3_64", text) + " " + text + "\n";
}

nlohmann::json prepare_journal::parse_line(std::string_view line, std::string const& location) {
  auto const text = line.substr(std::min<std::size_t>(17, line.size()));
  parallel::require(line.substr(0, 16) == hash_of("xxh3_64", text), location,
                    ": the journal is damaged; remove the folder and start over");
  return parse_json(text, location);
}

void prepare_journal::add(nlohmann::json const& entry, std::string const& location) {
  shards_.push_back(mds_shard::from_json(member(entry, "shard", location), location));
  position_.file = count_member(entry, "file", location);
  position_.document = count_member(entry, "document", location);
  position_.offset = count_member(entry, "offset", location);
  position_.counts = counts_from_json(member(entry, "before", location), location);
}

void prepare_journal::open() {
  file_ = parallel::descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (file_.get() < 0) parallel::files::failure(path_, "cannot open");
}

}  // namespace mpt::data::detail
