#include <mpt/hf/pickle.hpp>

#include <bit>
#include <utility>

namespace mpt::hf {

pickle::pickle(std::string_view code, std::string source)
    : code_(code), source_(std::move(source)) {
  run();
  memo_.clear();
  code_ = {};
}

std::optional<pickle::id> pickle::find(id mapping, std::string_view key) const {
  std::optional<id> out;
  auto const& parts = at(mapping).parts;
  if (at(mapping).what == kind::mapping)
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      if (at(parts[i]).what == kind::text && at(parts[i]).text == key) out = parts[i + 1];
  return out;
}

std::optional<pickle::id> pickle::find_path(std::span<std::string_view const> keys) const {
  std::optional<id> out = root_;
  for (auto const key : keys)
    if (out) out = find(*out, key);
  return out;
}

void pickle::damaged(std::string_view how) const {
  parallel::fail(source_, ": its pickle is damaged at byte ", at_, ": ", how);
}

void pickle::check(bool good, std::string_view how) const {
  if (!good) damaged(how);
}

std::string_view pickle::next(std::uint64_t bytes) {
  check(bytes <= code_.size() - at_, "it ends in the middle of an instruction");
  auto const out = code_.substr(at_, static_cast<std::size_t>(bytes));
  at_ += out.size();
  return out;
}

std::uint64_t pickle::number(unsigned bytes) {
  std::uint64_t out = 0;
  auto const taken = next(bytes);
  for (unsigned i = 0; i < bytes; ++i)
    out |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  return out;
}

std::string_view pickle::line() {
  auto const end = code_.find('\n', at_);
  check(end != std::string_view::npos, "a name does not end");
  auto const out = next(end - at_);
  ++at_;
  return out;
}

void pickle::push(value made) {
  parallel::require(values_.size() < max_values, source_, ": its pickle describes more than ",
                    max_values, " values; save the model's weights alone");
  count_parts(made.parts.size());
  values_.push_back(std::move(made));
  stack_.push_back(static_cast<id>(values_.size() - 1));
}

void pickle::count_parts(std::size_t more) {
  parts_ += more;
  parallel::require(parts_ <= 4 * max_values, source_,
                    ": the collections of its pickle have more than ", 4 * max_values,
                    " items; save the model's weights alone");
}

pickle::id pickle::pop() {
  check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "it takes a value that is not there");
  auto const out = stack_.back();
  stack_.pop_back();
  return out;
}

pickle::id pickle::top() const {
  check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "it uses a value that is not there");
  return stack_.back();
}

std::vector<pickle::id> pickle::pop_marked() {
  check(!marks_.empty(), "it takes values up to a mark that is not there");
  auto const begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<id> out(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return out;
}

void pickle::push_tuple(std::size_t size) {
  std::vector<id> parts(size);
  for (std::size_t i = size; i-- > 0;) parts[i] = pop();
  push({.what = kind::tuple, .parts = std::move(parts)});
}

void pickle::add(id to, std::vector<id> const& parts, kind expected) {
  auto& target = values_[to];
  if (target.what == kind::object) return;  // its content is not made
  check(target.what == expected, "it adds to a value that is no collection");
  check(expected != kind::mapping || parts.size() % 2 == 0, "a key has no value");
  count_parts(parts.size());
  target.parts.insert(target.parts.end(), parts.begin(), parts.end());
}

void pickle::remember(std::uint64_t place) {
  parallel::require(memo_.size() < max_values, source_, ": its pickle remembers more than ",
                    max_values, " values");
  memo_[place] = top();
}

void pickle::recall(std::uint64_t place) {
  auto const found = memo_.find(place);
  check(found != memo_.end(), "it uses a value that it did not remember");
  check(stack_.size() < 4 * max_values, "its stack is too high");
  stack_.push_back(found->second);
}

void pickle::push_global(std::string_view module, std::string_view name) {
  check(module.size() + name.size() < 4096, "a name is too long");
  auto full = parallel::concat(module, ".", name);
  parallel::require(
      pickle_names::allowed(full), source_, ": its pickle names ", printable(full),
      ", which no file of weights needs and which could run anything; nothing of it was run, and "
      "it is not read: get the model as safetensors, or from someone you trust");
  push({.what = kind::global, .text = std::move(full)});
}

void pickle::call() {
  auto const& arguments = values_[pop()];
  auto const& function = values_[pop()];
  check(function.what == kind::global && arguments.what == kind::tuple,
        "it calls what is not a function");
  auto const& given = arguments.parts;
  if (function.text == pickle_names::mapping) {
    make_mapping(given);
  } else if (function.text == pickle_names::tensor) {
    make_tensor(given);
  } else if (function.text == pickle_names::parameter) {
    check(!given.empty() && values_[given[0]].what == kind::tensor, "a parameter is no tensor");
    stack_.push_back(given[0]);
  } else {
    push(kind::object);
  }
}

void pickle::make_mapping(std::vector<id> const& given) {
  push(kind::mapping);
  if (given.empty()) return;
  for (auto const pair : values_[given[0]].parts) {  // of one list
    check(values_[pair].parts.size() == 2, "an ordered dictionary is not made of pairs");
    add(top(), values_[pair].parts, kind::mapping);
  }
}

void pickle::make_tensor(std::vector<id> const& given) {
  check(given.size() >= 4 && values_[given[0]].what == kind::storage &&
            values_[given[1]].what == kind::integer && values_[given[2]].what == kind::tuple &&
            values_[given[3]].what == kind::tuple,
        "a tensor is described in an unknown way");
  push({.what = kind::tensor,
        .integer = values_[given[1]].integer,
        .parts = {given[0], given[2], given[3]}});
}

void pickle::make_storage() {
  auto const& given = values_[pop()];
  check(given.what == kind::tuple && given.parts.size() >= 5 &&
            values_[given.parts[0]].text == "storage" &&
            values_[given.parts[1]].what == kind::global &&
            pickle_names::is_storage(values_[given.parts[1]].text) &&
            values_[given.parts[2]].what == kind::text &&
            values_[given.parts[2]].text.size() < 100 &&
            values_[given.parts[4]].what == kind::integer,
        "it refers to bytes elsewhere in an unknown way");
  push({.what = kind::storage,
        .integer = values_[given.parts[4]].integer,
        .text = values_[given.parts[2]].text,
        .parts = {given.parts[1]}});
}

void pickle::push_long() {
  auto const bytes = static_cast<unsigned>(number(1));
  if (bytes > 8) {  // a seed of a random generator
    static_cast<void>(next(bytes));
    return push(kind::object);
  }
  auto out = number(bytes);
  if (bytes > 0 && bytes < 8 && (out >> (8 * bytes - 1)) != 0)
    out |= ~std::uint64_t{0} << (8 * bytes);
  push_integer(std::bit_cast<std::int64_t>(out));
}

void pickle::push_real() {
  std::uint64_t bits = 0;
  for (char const byte : next(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
  push({.what = kind::real, .real = std::bit_cast<double>(bits)});
}

void pickle::push_text(kind what, unsigned length_bytes) {
  auto const length = number(length_bytes);
  push({.what = what, .text = std::string(next(length))});
}

void pickle::run() {
  while (true) {
    auto const code = static_cast<unsigned char>(next(1)[0]);
    if (code == '.') break;
    step(code);
  }
  root_ = pop();
  check(stack_.empty() && marks_.empty(), "values are left over at its end");
}

void pickle::step(unsigned char code) {
  switch (code) {
    case 0x80: check(number(1) <= 5, "its protocol is unknown"); break;
    case 0x95: static_cast<void>(next(8)); break;  // the size of a frame
    case 'N': push(kind::none); break;
    case 0x88:
    case 0x89: push({.what = kind::boolean, .integer = code == 0x88}); break;
    case 'J':
      push_integer(std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))));
      break;
    case 'K': push_integer(static_cast<std::int64_t>(number(1))); break;
    case 'M': push_integer(static_cast<std::int64_t>(number(2))); break;
    case 0x8a: push_long(); break;
    case 'G': push_real(); break;
    case 'X': push_text(kind::text, 4); break;
    case 0x8c: push_text(kind::text, 1); break;
    case 0x8d: push_text(kind::text, 8); break;
    case 'B': push_text(kind::bytes, 4); break;
    case 'C': push_text(kind::bytes, 1); break;
    case 0x8e: push_text(kind::bytes, 8); break;
    case '}': push(kind::mapping); break;
    case ']': push(kind::list); break;
    case 0x8f: push(kind::object); break;  // a set
    case ')': push(kind::tuple); break;
    case '(':
      check(marks_.size() < max_values, "it is nested too deeply");
      marks_.push_back(stack_.size());
      break;
    case 0x85: push_tuple(1); break;
    case 0x86: push_tuple(2); break;
    case 0x87: push_tuple(3); break;
    case 't': push({.what = kind::tuple, .parts = pop_marked()}); break;
    case 0x91: static_cast<void>(pop_marked()), push(kind::object); break;
    case 'a': {
      auto const item = pop();
      add(top(), {item}, kind::list);
      break;
    }
    case 's': {
      auto const item = pop();
      auto const key = pop();
      add(top(), {key, item}, kind::mapping);
      break;
    }
    case 'e':
    case 'u': {
      auto const items = pop_marked();
      add(top(), items, code == 'e' ? kind::list : kind::mapping);
      break;
    }
    case 0x90: {  // to a set
      static_cast<void>(pop_marked());
      check(values_[top()].what == kind::object, "it adds to a value that is no set");
      break;
    }
    case 'q': remember(number(1)); break;
    case 'r': remember(number(4)); break;
    case 0x94: remember(memo_.size()); break;
    case 'h': recall(number(1)); break;
    case 'j': recall(number(4)); break;
    case '0': static_cast<void>(pop()); break;
    case 'c': {
      auto const module = line();
      push_global(module, line());
      break;
    }
    case 0x93: {
      auto const& name = values_[pop()];
      auto const& module = values_[pop()];
      check(name.what == kind::text && module.what == kind::text, "a name is no text");
      push_global(module.text, name.text);
      break;
    }
    case 'Q': make_storage(); break;
    case 'R': call(); break;
    case 0x81: {  // a new object of a class
      static_cast<void>(pop());
      check(values_[pop()].what == kind::global, "it makes an object of what is no class");
      push(kind::object);
      break;
    }
    case 'b': static_cast<void>(pop()), static_cast<void>(top()); break;  // attributes
    default:
      parallel::fail(source_, ": its pickle has the instruction ", static_cast<int>(code),
                     " at byte ", at_ - 1,
                     ", which is not among those that describe weights; nothing of it was run, "
                     "and it is not read: save the model as safetensors");
  }
}

}  // namespace mpt::hf
