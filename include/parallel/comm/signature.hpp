// signature: what a rank is about to do, small enough to be compared with every other rank.
//
// A mismatch of collectives is the classic hang: one rank reduces five numbers, another gathers
// three. Ranks that exchange signatures first turn it into one sentence that names the call sites,
// the ranks and what differs. Trivially copyable, 256 bytes, so that it travels as it is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/comm/operation.hpp>

namespace parallel {

/// An operation without its pointers, with its place in the order of the communicator's calls.
struct signature {
  operation_kind kind = operation_kind::barrier;
  dtype type = dtype::u8;
  reduction combine = reduction::sum;
  std::uint8_t reserved = 0;
  std::int32_t peer = -1;
  std::int32_t tag = 0;
  std::uint32_t line = 0;
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;
  /// Hash of the whole path, since `file` may be cut.
  std::uint64_t file_hash = 0;
  /// The axis of the communicator ("tensor"), closed by a zero; empty: the whole world.
  std::array<char, 24> axis = {};
  /// The end of the file's path, closed by a zero.
  std::array<char, 192> file = {};

  [[nodiscard]] std::string_view axis_name() const { return axis.data(); }

  [[nodiscard]] std::string_view file_name() const {
    auto const end = std::find(file.begin(), file.end(), '\0');
    return {file.data(), static_cast<std::size_t>(end - file.begin())};
  }
};
static_assert(sizeof(signature) == 256 && std::is_trivially_copyable_v<signature>);

/// The signature of `op` as the `sequence`-th call of a communicator along `axis`.
[[nodiscard]] inline signature signature_of(operation const& op, std::uint64_t sequence,
                                            std::string_view axis = {}) {
  if (op.on_behalf_of != nullptr) {
    signature out = *op.on_behalf_of;
    out.sequence = sequence;
    return out;
  }
  signature out{.kind = op.kind,
                .type = op.type,
                .combine = op.combine,
                .peer = op.peer,
                .tag = op.tag,
                .line = op.where.line(),
                .count = op.count,
                .sequence = sequence};
  std::string_view path = op.where.file_name();
  out.file_hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (char const c : path)
    out.file_hash = (out.file_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  if (path.size() >= out.file.size()) path.remove_prefix(path.size() - out.file.size() + 1);
  std::copy(path.begin(), path.end(), out.file.begin());
  axis = axis.substr(0, out.axis.size() - 1);
  std::copy(axis.begin(), axis.end(), out.axis.begin());
  return out;
}

/// "all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
[[nodiscard]] inline std::string describe(signature const& what) {
  if (what.kind == operation_kind::split) return concat("split into color ", what.peer);
  std::string out(name_of(what.kind));
  if (combines(what.kind)) out += concat('(', name_of(what.combine), ')');
  if (what.kind != operation_kind::barrier)
    out += concat(" of ", what.count, ' ', name_of(what.type));
  if (what.kind == operation_kind::broadcast) out += concat(" from root ", what.peer);
  if (what.kind == operation_kind::send) out += concat(" to rank ", what.peer, ", tag ", what.tag);
  if (what.kind == operation_kind::recv)
    out += concat(" from rank ", what.peer, ", tag ", what.tag);
  if (what.axis[0] != '\0') out += concat(" over ", what.axis_name());
  std::string_view name = what.file_name();
  if (auto const slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  return out + concat(" at ", name, ':', what.line);
}

[[nodiscard]] inline std::string describe(operation const& op) {
  return describe(signature_of(op, 0));
}

/// "rank 3" or "ranks 0, 2".
[[nodiscard]] inline std::string name_ranks(std::span<int const> ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += concat(i == 0 ? "" : ", ", ranks[i]);
  return out;
}

/// Whether ranks may take part in one collective from different lines (root and others often do).
enum class call_sites : std::uint8_t { may_differ, must_agree };

namespace detail {

/// What differs between two signatures of one collective, as words; empty: nothing.
[[nodiscard]] inline std::vector<std::string_view> differences(signature const& a,
                                                               signature const& b,
                                                               call_sites sites) {
  std::vector<std::string_view> out;
  if (a.kind != b.kind) out.emplace_back("operation");
  if (a.type != b.type) out.emplace_back("element type");
  if (a.count != b.count) out.emplace_back("count");
  if (a.combine != b.combine) out.emplace_back("reduction");
  if (a.peer != b.peer) out.emplace_back("root");
  if (a.sequence != b.sequence) out.emplace_back("sequence number");
  if (sites == call_sites::must_agree && (a.file_hash != b.file_hash || a.line != b.line))
    out.emplace_back("call site");
  return out;
}

[[nodiscard]] inline std::string join(std::span<std::string_view const> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) out += concat(i == 0 ? "" : ", ", words[i]);
  return out;
}

}  // namespace detail

/// The sentence that says how the ranks' signatures of one collective differ; empty: they agree.
/// Rank r is called names[r], or r when there are no names.
[[nodiscard]] inline std::string disagreement(std::span<signature const> by_rank,
                                              call_sites sites = call_sites::may_differ,
                                              std::span<int const> names = {}) {
  struct party {
    signature what;
    std::vector<int> ranks;
  };
  std::vector<party> parties;
  std::vector<std::string_view> words;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    int const name = names.empty() ? static_cast<int>(rank) : names[rank];
    auto const same = std::find_if(parties.begin(), parties.end(), [&](party const& p) {
      return detail::differences(p.what, by_rank[rank], sites).empty();
    });
    if (same != parties.end()) {
      same->ranks.push_back(name);
      continue;
    }
    if (!parties.empty())
      for (auto const word : detail::differences(parties.front().what, by_rank[rank], sites))
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    parties.push_back({by_rank[rank], {name}});
  }
  if (parties.size() < 2) return {};
  std::string out = concat("ranks disagree in ", detail::join(words), " (call ",
                           parties.front().what.sequence, " of this communicator): ");
  for (std::size_t i = 0; i < parties.size(); ++i)
    out +=
        concat(i == 0 ? "" : "; ", name_ranks(parties[i].ranks), ": ", describe(parties[i].what));
  return out + "; all ranks must make the same calls in the same order";
}

/// The same for a message between `from` and `to`: element type and count must agree.
[[nodiscard]] inline std::string message_disagreement(signature const& sent, int from,
                                                      signature const& received, int to) {
  std::vector<std::string_view> words;
  if (sent.type != received.type) words.emplace_back("element type");
  if (sent.count != received.count) words.emplace_back("count");
  if (words.empty()) return {};
  return concat("sender and receiver disagree in ", detail::join(words), ": rank ", from, ": ",
                describe(sent), "; rank ", to, ": ", describe(received));
}

}  // namespace parallel
