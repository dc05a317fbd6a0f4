#include <mpt/finetune/mds_rows.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <mpt/data/json.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <mpt/train/preflight.hpp>
#include <parallel/comm/threads/world.hpp>

namespace mpt::finetune {
namespace {

/// Ids of a JSON list. Error: what is no id below `limit`.
[[nodiscard]] std::vector<std::int32_t> ids_of(nlohmann::json const& list, char const* name,
                                               std::int64_t limit, std::string_view where) {
  parallel::require(list.is_array(), where, ": \"", name, "\" is of type ", list.type_name(),
                    ", expected a list of ids");
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  for (auto const& id : list) {
    bool const fits =
        id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(limit);
    parallel::require(fits, where, ": \"", name, "\" holds ", id.dump().substr(0, 40), " at ",
                      out.size(), "; expected an id from 0 to ", limit - 1,
                      ": the set was prepared with another tokenizer");
    out.push_back(id.get<std::int32_t>());
  }
  return out;
}

[[nodiscard]] std::vector<std::int32_t> ids_of(data::mds_sample const& sample, char const* name,
                                               data::mds_type raw_type, std::int64_t limit) {
  auto const& layout = sample.layout();
  auto const column = layout.column(name);
  auto const& encoding = layout.encodings[column];
  auto const bytes = sample.bytes(column);
  using kind = data::mds_encoding::kind;
  parallel::require(encoding.what == kind::array || encoding.what == kind::bytes, sample.where(),
                    ": column \"", name, "\" has encoding \"", encoding.name,
                    "\", expected an array of ids");
  data::mds_array array{raw_type, {}, bytes};
  if (encoding.what == kind::array) array = encoding.decode_array(bytes, sample.where());
  parallel::require(bytes.size() % data::size_of(array.type) == 0, sample.where(), ": ",
                    bytes.size(), " bytes of \"", name, "\" are not a whole number of ",
                    data::name_of(array.type),
                    " ids; set token_encoding_type to what the set was written with");
  parallel::require(!data::name_of(array.type).starts_with("float"), sample.where(), ": column \"",
                    name, "\" holds ", data::name_of(array.type), ", expected integers");
  auto const ids = array.to<std::int64_t>();
  std::vector<std::int32_t> out;
  for (auto const id : ids) {
    parallel::require(id >= 0 && id < limit, sample.where(), ": \"", name, "\" holds ", id, " at ",
                      out.size(), "; expected an id from 0 to ", limit - 1,
                      ": the set was prepared with another tokenizer, or has another "
                      "token_encoding_type");
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

[[nodiscard]] bool has_column(data::mds_sample const& sample, std::string_view name) {
  auto const& names = sample.layout().names;
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::optional<std::vector<turn>> turns_of(data::mds_sample const& sample,
                                          id_options const& options) {
  std::vector<turn> out;
  auto const& where = sample.where();
  if (has_column(sample, "turns")) {
    auto const list = sample.json("turns");
    parallel::require(list.is_array(), where, ": \"turns\" is of type ", list.type_name(),
                      ", expected a list of {\"input_ids\": [...], \"labels\": [...]}");
    for (auto const& one : list)
      out.push_back({ids_of(data::detail::member(one, "input_ids", where), "input_ids",
                            options.vocab_size, where),
                     ids_of(data::detail::member(one, "labels", where), "labels",
                            options.vocab_size, where)});
    return out;
  }
  if (!has_column(sample, "input_ids")) return std::nullopt;
  parallel::require(has_column(sample, "labels"), where,
                    ": has \"input_ids\" but no \"labels\"; expected both");
  turn one{ids_of(sample, "input_ids", options.raw_type, options.vocab_size),
           ids_of(sample, "labels", options.raw_type, options.vocab_size)};
  for (auto* const part : {&one.prompt, &one.response})
    part->resize(std::min(part->size(), options.longest));
  out.push_back(std::move(one));
  return out;
}

nlohmann::json text_row(data::mds_sample const& sample) {
  auto const& layout = sample.layout();
  auto row = nlohmann::json::object();
  for (std::size_t column = 0; column < layout.names.size(); ++column) {
    auto const& encoding = layout.encodings[column];
    auto const bytes = sample.bytes(column);
    auto& value = row[layout.names[column]];
    if (encoding.name == "json") {
      value = data::parse_json(bytes, sample.where());
    } else if (encoding.what == data::mds_encoding::kind::text ||
               encoding.what == data::mds_encoding::kind::bytes) {
      parallel::require(utf8::is_valid(bytes), sample.where(), ": column \"", layout.names[column],
                        "\" is not UTF-8");
      value = std::string(bytes);
    }
  }
  return row;
}

}  // namespace mpt::finetune
