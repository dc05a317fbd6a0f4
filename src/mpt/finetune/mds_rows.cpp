#include <mpt/finetune/mds_rows.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <mpt/data/json.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::finetune {
namespace {

/// The ids of a JSON list. Error: an element that is not an id below `limit`.
[[nodiscard]] std::vector<std::int32_t> ids_of(nlohmann::json const& list, char const* name,
                                               std::int64_t limit, std::string_view location) {
  parallel::require(list.is_array(), location, ": \"", name, "\" is of type ", list.type_name(),
                    ", expected a list of ids");
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (auto const& item : list) {
    bool const fits =
        item.is_number_unsigned() && item.get<std::uint64_t>() < static_cast<std::uint64_t>(limit);
    parallel::require(fits, location, ": \"", name, "\" holds ", item.dump().substr(0, 40), " at ",
                      ids.size(), "; expected an id from 0 to ", limit - 1,
                      ": the set was prepared with another tokenizer");
    ids.push_back(item.get<std::int32_t>());
  }
  return ids;
}

[[nodiscard]] std::vector<std::int32_t> ids_of(data::mds_sample const& sample, char const* name,
                                               data::mds_type raw_type, std::int64_t limit) {
  auto const& layout = sample.layout();
  auto const column = layout.column(name);
  auto const& encoding = layout.encodings[column];
  auto const bytes = sample.bytes(column);
  using kind = data::mds_encoding::kind;
  parallel::require(encoding.value_kind == kind::array || encoding.value_kind == kind::bytes,
                    sample.location(), ": column \"", name, "\" has encoding \"", encoding.name,
                    "\", expected an array of ids");
  data::mds_array array{raw_type, {}, bytes};
  if (encoding.value_kind == kind::array) array = encoding.decode_array(bytes, sample.location());
  parallel::require(bytes.size() % data::size_of(array.type) == 0, sample.location(), ": ",
                    bytes.size(), " bytes of \"", name, "\" are not a whole number of ",
                    data::to_string(array.type),
                    " ids; set token_encoding_type to what the set was written with");
  parallel::require(!data::to_string(array.type).starts_with("float"), sample.location(),
                    ": column \"", name, "\" holds ", data::to_string(array.type),
                    ", expected integers");
  auto const values = array.to<std::int64_t>();
  std::vector<std::int32_t> ids;
  for (auto const value : values) {
    parallel::require(value >= 0 && value < limit, sample.location(), ": \"", name, "\" holds ",
                      value, " at ", ids.size(), "; expected an id from 0 to ", limit - 1,
                      ": the set was prepared with another tokenizer, or has another "
                      "token_encoding_type");
    ids.push_back(static_cast<std::int32_t>(value));
  }
  return ids;
}

[[nodiscard]] bool has_column(data::mds_sample const& sample, std::string_view name) {
  auto const& names = sample.layout().names;
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::optional<std::vector<turn>> turns_of(data::mds_sample const& sample,
                                          id_options const& options) {
  std::vector<turn> turns;
  auto const& location = sample.location();
  if (has_column(sample, "turns")) {
    auto const list = sample.json("turns");
    parallel::require(list.is_array(), location, ": \"turns\" is of type ", list.type_name(),
                      ", expected a list of {\"input_ids\": [...], \"labels\": [...]}");
    for (auto const& item : list)
      turns.push_back(
          {ids_of(data::member(item, "input_ids", location), "input_ids", options.vocab_size,
                  location),
           ids_of(data::member(item, "labels", location), "labels", options.vocab_size, location)});
    return turns;
  }
  if (!has_column(sample, "input_ids")) return std::nullopt;
  parallel::require(has_column(sample, "labels"), location,
                    ": has \"input_ids\" but no \"labels\"; expected both");
  turn tokenised{ids_of(sample, "input_ids", options.raw_type, options.vocab_size),
                 ids_of(sample, "labels", options.raw_type, options.vocab_size)};
  for (auto* const ids : {&tokenised.prompt, &tokenised.response})
    ids->resize(std::min(ids->size(), options.max_ids));
  turns.push_back(std::move(tokenised));
  return turns;
}

nlohmann::json text_row(data::mds_sample const& sample) {
  auto const& layout = sample.layout();
  auto row = nlohmann::json::object();
  for (std::size_t column = 0; column < layout.names.size(); ++column) {
    auto const& encoding = layout.encodings[column];
    auto const bytes = sample.bytes(column);
    auto& value = row[layout.names[column]];
    if (encoding.name == "json") {
      value = data::parse_json(bytes, sample.location());
    } else if (encoding.value_kind == data::mds_encoding::kind::text ||
               encoding.value_kind == data::mds_encoding::kind::bytes) {
      parallel::require(utf8::is_valid(bytes), sample.location(), ": column \"",
                        layout.names[column], "\" is not UTF-8");
      value = std::string(bytes);
    }
  }
  return row;
}

}  // namespace mpt::finetune
