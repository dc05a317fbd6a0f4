#include <mpt/hf/pickle.hpp>

#include <algorithm>
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
  auto const& parts = value_of(mapping).parts;
  if (value_of(mapping).type == kind::mapping)
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      if (value_of(parts[i]).type == kind::text && value_of(parts[i]).text == key)
        out = parts[i + 1];
  return out;
}

std::optional<pickle::id> pickle::find_path(std::span<std::string_view const> keys) const {
  std::optional<id> out = root_;
  for (auto const key : keys)
    if (out) out = find(*out, key);
  return out;
}

void pickle::fail_damaged(std::string_view problem) const {
  parallel::fail(source_, ": its pickle is damaged at byte ", position_, ": ", problem);
}

void pickle::check(bool holds, std::string_view problem) const {
  if (!holds) fail_damaged(problem);
}

std::string_view pickle::read_bytes(std::uint64_t bytes) {
  check(bytes <= code_.size() - position_, "it ends in the middle of an instruction");
  auto const out = code_.substr(position_, static_cast<std::size_t>(bytes));
  position_ += out.size();
  return out;
}

std::uint64_t pickle::read_number(unsigned bytes) {
  std::uint64_t out = 0;
  auto const digits = read_bytes(bytes);
  for (unsigned i = 0; i < bytes; ++i)
    out |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
  return out;
}

std::string_view pickle::read_line() {
  auto const end = code_.find('\n', position_);
  check(end != std::string_view::npos, "a name does not end");
  auto const out = read_bytes(end - position_);
  ++position_;
  return out;
}

void pickle::push(value new_value) {
  parallel::require(values_.size() < max_values, source_, ": its pickle describes more than ",
                    max_values, " values; save the model's weights alone");
  count_parts(new_value.parts.size());
  values_.push_back(std::move(new_value));
  stack_.push_back(static_cast<id>(values_.size() - 1));
}

void pickle::count_parts(std::size_t added) {
  part_count_ += added;
  parallel::require(part_count_ <= 4 * max_values, source_,
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
  push({.type = kind::tuple, .parts = std::move(parts)});
}

void pickle::append_parts(id collection, std::vector<id> const& parts, kind expected) {
  auto& target = values_[collection];
  if (target.type == kind::object) return;  // an object's content is dropped
  check(target.type == expected, "it adds to a value that is not a collection");
  check(expected != kind::mapping || parts.size() % 2 == 0, "a key has no value");
  count_parts(parts.size());
  target.parts.insert(target.parts.end(), parts.begin(), parts.end());
}

void pickle::memoize(std::uint64_t slot) {
  parallel::require(memo_.size() < max_values, source_, ": its pickle remembers more than ",
                    max_values, " values");
  memo_[slot] = top();
}

void pickle::push_memoized(std::uint64_t slot) {
  auto const found = memo_.find(slot);
  check(found != memo_.end(), "it uses a value that it did not remember");
  check(stack_.size() < 4 * max_values, "its stack is too high");
  stack_.push_back(found->second);
}

void pickle::push_global(std::string_view module, std::string_view name) {
  check(module.size() + name.size() < 4096, "a name is too long");
  auto full_name = parallel::concat(module, ".", name);
  parallel::require(
      pickle_names::is_allowed(full_name), source_, ": its pickle names ", printable(full_name),
      ", which no file of weights needs and which could run anything; nothing of it was run, and "
      "it is not read: get the model as safetensors, or from someone you trust");
  push({.type = kind::global, .text = std::move(full_name)});
}

void pickle::call() {
  auto const& argument_tuple = values_[pop()];
  auto const& function = values_[pop()];
  check(function.type == kind::global && argument_tuple.type == kind::tuple,
        "it calls what is not a function");
  auto const& arguments = argument_tuple.parts;
  if (function.text == pickle_names::mapping) {
    make_mapping(arguments);
  } else if (function.text == pickle_names::tensor) {
    make_tensor(arguments);
  } else if (function.text == pickle_names::parameter) {
    check(!arguments.empty() && values_[arguments[0]].type == kind::tensor,
          "a parameter is no tensor");
    stack_.push_back(arguments[0]);
  } else {
    push(kind::object);
  }
}

void pickle::make_mapping(std::vector<id> const& arguments) {
  push(kind::mapping);
  if (arguments.empty()) return;
  for (auto const pair : values_[arguments[0]].parts) {  // the argument is a list of pairs
    check(values_[pair].parts.size() == 2, "an ordered dictionary is not made of pairs");
    append_parts(top(), values_[pair].parts, kind::mapping);
  }
}

void pickle::make_tensor(std::vector<id> const& arguments) {
  check(arguments.size() >= 4 && values_[arguments[0]].type == kind::storage &&
            values_[arguments[1]].type == kind::integer &&
            values_[arguments[2]].type == kind::tuple && values_[arguments[3]].type == kind::tuple,
        "a tensor is described in an unknown way");
  push({.type = kind::tensor,
        .integer = values_[arguments[1]].integer,
        .parts = {arguments[0], arguments[2], arguments[3]}});
}

void pickle::make_storage() {
  auto const& arguments = values_[pop()];
  check(arguments.type == kind::tuple && arguments.parts.size() >= 5 &&
            values_[arguments.parts[0]].text == "storage" &&
            values_[arguments.parts[1]].type == kind::global &&
            pickle_names::is_storage(values_[arguments.parts[1]].text) &&
            values_[arguments.parts[2]].type == kind::text &&
            values_[arguments.parts[2]].text.size() < 100 &&
            values_[arguments.parts[4]].type == kind::integer,
        "it refers to bytes elsewhere in an unknown way");
  push({.type = kind::storage,
        .integer = values_[arguments.parts[4]].integer,
        .text = values_[arguments.parts[2]].text,
        .parts = {arguments.parts[1]}});
}

void pickle::push_long() {
  auto const bytes = static_cast<unsigned>(read_number(1));
  if (bytes > 8) {  // larger than 64 bits: a seed of a random generator
    static_cast<void>(read_bytes(bytes));
    return push(kind::object);
  }
  auto out = read_number(bytes);
  if (bytes > 0 && bytes < 8 && (out >> (8 * bytes - 1)) != 0)
    out |= ~std::uint64_t{0} << (8 * bytes);
  push_integer(std::bit_cast<std::int64_t>(out));
}

void pickle::push_real() {
  std::uint64_t bits = 0;
  for (char const byte : read_bytes(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
  push({.type = kind::real, .real = std::bit_cast<double>(bits)});
}

void pickle::push_text(kind type, unsigned length_bytes) {
  auto const length = read_number(length_bytes);
  push({.type = type, .text = std::string(read_bytes(length))});
}

void pickle::run() {
  while (true) {
    auto const code = static_cast<unsigned char>(read_bytes(1)[0]);
    if (code == '.') break;
    step(code);
  }
  root_ = pop();
  check(stack_.empty() && marks_.empty(), "values are left over at its end");
}

bool pickle::push_value(unsigned char code) {
  switch (code) {
    case 0x80: check(read_number(1) <= 5, "its protocol is unknown"); break;
    case 0x95: static_cast<void>(read_bytes(8)); break;  // the size of a frame
    case 'N': push(kind::none); break;
    case 0x88:
    case 0x89: push({.type = kind::boolean, .integer = code == 0x88}); break;
    case 'J':
      push_integer(std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(read_number(4))));
      break;
    case 'K': push_integer(static_cast<std::int64_t>(read_number(1))); break;
    case 'M': push_integer(static_cast<std::int64_t>(read_number(2))); break;
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
    case 't': push({.type = kind::tuple, .parts = pop_marked()}); break;
    case 0x91: static_cast<void>(pop_marked()), push(kind::object); break;
    case 'q': memoize(read_number(1)); break;
    case 'r': memoize(read_number(4)); break;
    case 0x94: memoize(memo_.size()); break;
    case 'h': push_memoized(read_number(1)); break;
    case 'j': push_memoized(read_number(4)); break;
    default: return false;
  }
  return true;
}

bool pickle::combine_values(unsigned char code) {
  switch (code) {
    case 'a': {
      auto const item = pop();
      append_parts(top(), {item}, kind::list);
      break;
    }
    case 's': {
      auto const item = pop();
      auto const key = pop();
      append_parts(top(), {key, item}, kind::mapping);
      break;
    }
    case 'e':
    case 'u': {
      auto const items = pop_marked();
      append_parts(top(), items, code == 'e' ? kind::list : kind::mapping);
      break;
    }
    case 0x90: {  // add items to a set
      static_cast<void>(pop_marked());
      check(values_[top()].type == kind::object, "it adds to a value that is not a set");
      break;
    }
    case '0': static_cast<void>(pop()); break;
    case 'c': {
      auto const module = read_line();
      push_global(module, read_line());
      break;
    }
    case 0x93: {
      auto const& name = values_[pop()];
      auto const& module = values_[pop()];
      check(name.type == kind::text && module.type == kind::text, "a name is no text");
      push_global(module.text, name.text);
      break;
    }
    case 'Q': make_storage(); break;
    case 'R': call(); break;
    case 0x81: {  // a new object of a class
      static_cast<void>(pop());
      check(values_[pop()].type == kind::global, "it makes an object of what is no class");
      push(kind::object);
      break;
    }
    case 'b': static_cast<void>(pop()), static_cast<void>(top()); break;  // attributes
    default: return false;
  }
  return true;
}

void pickle::step(unsigned char code) {
  if (push_value(code) || combine_values(code)) return;
  parallel::fail(source_, ": its pickle has the instruction ", static_cast<int>(code), " at byte ",
                 position_ - 1,
                 ", which is not among those that describe weights; nothing of it was run, "
                 "and it is not read: save the model as safetensors");
}

}  // namespace mpt::hf

namespace mpt::hf::pickle_names {

bool is_storage(std::string_view name) {
  return std::ranges::find(storages, name) != storages.end();
}

bool is_allowed(std::string_view name) {
  return name == mapping || name == tensor || name == parameter || is_storage(name) ||
         std::ranges::find(irrelevant, name) != irrelevant.end();
}

}  // namespace mpt::hf::pickle_names
