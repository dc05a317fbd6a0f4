#include <mpt/hf/zip_archive.hpp>

#include <utility>

namespace mpt::hf {

zip_archive::zip_archive(std::filesystem::path path) : path_(std::move(path)) {
  parallel::require(parallel::files::exists(path_), path_.native(),
                    ": does not exist; check the path");
  int code = 0;
  archive_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
  if (archive_ == nullptr) {
    zip_error_t problem;
    zip_error_init_with_code(&problem, code);
    std::string const text = zip_error_strerror(&problem);
    zip_error_fini(&problem);
    parallel::fail(path_.native(), ": is not a zip file, or is cut short (", text,
                   "); fetch it again");
  }
  auto const size = std::filesystem::file_size(path_);
  auto const count = zip_get_num_entries(archive_.get(), 0);
  parallel::require(count <= max_members, path_.native(), ": has ", count, " members, but at most ",
                    max_members, " are supported");
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t status;
    zip_stat_init(&status);
    constexpr zip_uint64_t required_fields =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    parallel::require(
        zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &status) == 0 &&
            (status.valid & required_fields) == required_fields,
        path_.native(), ": entry ", i, " of its list of members is damaged; fetch the file again");
    parallel::require(status.comp_size <= size, path_.native(), ": says that member ", i,
                      " has more bytes than the file; it is cut short or damaged");
    members_.push_back({status.name, status.size,
                        status.comp_method == ZIP_CM_STORE && status.comp_size == status.size &&
                            status.encryption_method == ZIP_EM_NONE});
    bool const is_new = index_by_name_.emplace(status.name, members_.size() - 1).second;
    parallel::require(is_new, path_.native(), ": two of its members have the same name");
  }
}

zip_archive::member const* zip_archive::find(std::string const& name) const {
  auto const found = index_by_name_.find(name);
  return found == index_by_name_.end() ? nullptr : &members_[found->second];
}

std::string zip_archive::read_all(member const& entry, std::uint64_t max_bytes) const {
  parallel::require(entry.bytes <= max_bytes, path_.native(), ": a member has ", entry.bytes,
                    " bytes, but at most ", max_bytes, " are supported for its kind");
  std::string out(static_cast<std::size_t>(entry.bytes), '\0');
  std::lock_guard const lock(mutex_);
  open(entry);
  read_opened(std::as_writable_bytes(std::span(out)));
  char extra_byte = 0;  // libzip compares checksums when it reads past the end
  bool const is_intact = zip_fread(opened_.get(), &extra_byte, 1) == 0;
  close();
  parallel::require(is_intact, path_.native(),
                    ": a member is damaged (its checksum or its length is wrong); fetch the file "
                    "again");
  return out;
}

void zip_archive::read(member const& entry, std::uint64_t begin, std::span<std::byte> out) const {
  parallel::require(entry.is_stored, path_.native(),
                    ": a tensor in it is compressed or encrypted; save it as torch.save does");
  parallel::require(begin <= entry.bytes && out.size() <= entry.bytes - begin, path_.native(),
                    ": cannot read ", out.size(), " bytes from byte ", begin, " of a member of ",
                    entry.bytes, " bytes");
  std::lock_guard const lock(mutex_);
  if (opened_ == nullptr || &entry != opened_member_) open(entry);
  parallel::require(zip_fseek(opened_.get(), static_cast<zip_int64_t>(begin), SEEK_SET) == 0,
                    path_.native(), ": cannot seek to byte ", begin, " of a member");
  read_opened(out);
}

void zip_archive::closer::operator()(zip_t* archive) const { zip_discard(archive); }

void zip_archive::closer::operator()(zip_file_t* file) const { zip_fclose(file); }

void zip_archive::open(member const& entry) const {
  close();
  opened_.reset(zip_fopen_index(archive_.get(), index_by_name_.at(entry.name), 0));
  parallel::require(opened_ != nullptr, path_.native(), ": a member cannot be opened (",
                    zip_strerror(archive_.get()), ")");
  opened_member_ = &entry;
}

void zip_archive::close() const {
  opened_.reset();
  opened_member_ = nullptr;
}

void zip_archive::read_opened(std::span<std::byte> out) const {
  while (!out.empty()) {
    auto const count = zip_fread(opened_.get(), out.data(), out.size());
    if (count <= 0) close();
    parallel::require(count > 0, path_.native(), ": is damaged or cut short: ", out.size(),
                      " bytes of a member cannot be read");
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace mpt::hf
