// The global functions of chat templates.
#include <ctime>
#include <string>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>

namespace mpt::jinja {
namespace {

[[nodiscard]] value make_range(environment& state, arguments& args) {
  auto const bound = bind(args, "range", {"start", "stop", "step"}, 1);
  auto const first = bound[1] == nullptr ? 0 : require_integer(*bound[0]);
  auto const end = require_integer(bound[1] == nullptr ? *bound[0] : *bound[1]);
  auto const step = bound[2] == nullptr ? 1 : require_integer(*bound[2]);
  if (step == 0) throw render_error("range() arg 3 must not be zero");
  constexpr std::size_t max_items = 100'000;
  std::vector<value> items;
  for (auto next = first; step > 0 ? next < end : next > end;) {
    if (items.size() == max_items)
      throw render_error("Range too big. The sandbox blocks ranges larger than 100000.");
    items.push_back(next);
    if (__builtin_add_overflow(next, step, &next)) break;
  }
  auto out = new_sequence(state, sequence_kind::range, std::move(items));
  out.items()->description = "range(" + std::to_string(first) + ", " + std::to_string(end) +
                             (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  return out;
}

[[nodiscard]] value make_dictionary(environment& state, arguments& args) {
  mapping out;
  if (args.positional.size() > 1) throw render_error("dict expected at most 1 argument");
  for (auto const& source : args.positional) {
    require_defined(source);
    state.work.spend(weight(source));
    if (source.dictionary() != nullptr) {
      out = *source.dictionary();
      continue;
    }
    for (auto const& item : iterate(source)) {
      auto const pair = iterate(item);
      if (pair.size() != 2) throw render_error("dict() expects pairs of a key and a value");
      state.work.spend(out.entries.size());
      assign(out, pair[0], pair[1]);
    }
  }
  for (auto const& [name, item] : args.named) {
    state.work.spend(out.entries.size());
    assign(out, make_text(name), item);
  }
  return std::make_shared<mapping>(std::move(out));
}

/// datetime.strftime() of Python for a time without a zone.
[[nodiscard]] value format_time(environment& state, arguments& args) {
  auto const format = require_text(*bind(args, "strftime_now", {"format"}, 1)[0]);
  std::string known;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      known += format[i];
      continue;
    }
    char const conversion = format[++i];
    if (conversion == 'f')
      known += "000000";
    else if (conversion != 'z' && conversion != 'Z')
      known += {'%', conversion};
  }
  auto const seconds = static_cast<std::time_t>(state.date.time_since_epoch().count());
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::string out(4 * known.size() + 1024, '\0');
  out.resize(std::strftime(out.data(), out.size(), (known + '.').c_str(), &parts));
  if (out.empty()) throw render_error("the text of the date is too long");
  out.pop_back();
  return new_text(state, std::move(out));
}

}  // namespace

std::optional<value> find_global(environment& state, std::string_view name) {
  if (name == "range")
    return make_function("<function range>",
                         [&state](arguments& args) { return make_range(state, args); });
  if (name == "dict")
    return make_function("<class 'dict'>",
                         [&state](arguments& args) { return make_dictionary(state, args); });
  if (name == "strftime_now")
    return make_function("<function strftime_now>",
                         [&state](arguments& args) { return format_time(state, args); });
  if (name == "raise_exception")
    return make_function("<function raise_exception>", [](arguments& args) -> value {
      throw render_error(to_string(*bind(args, "raise_exception", {"message"}, 1)[0]));
    });
  return std::nullopt;
}

}  // namespace mpt::jinja
