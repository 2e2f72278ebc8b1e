#include "weights/derived_checkpoint.h"

#include <set>
#include <unordered_map>

namespace drafthorse {
namespace {

class DerivedCheckpoint final : public Checkpoint {
 public:
  DerivedCheckpoint(std::shared_ptr<const Checkpoint> base, const std::vector<std::string>& replaced,
                    std::vector<GatheredTensor> gathered, std::vector<std::shared_ptr<const Checkpoint>> kept)
      : base_(std::move(base)), kept_(std::move(kept)), gathered_(std::move(gathered)) {
    const std::set<std::string_view> left_out(replaced.begin(), replaced.end());
    for (const TensorView& tensor : base_->tensors()) {
      if (!left_out.contains(tensor.name)) tensors_.push_back(tensor);
    }
    for (const GatheredTensor& tensor : gathered_) tensors_.push_back(tensor.view);
    for (const TensorView& tensor : tensors_) index_.emplace(tensor.name, &tensor);
  }

  Kind kind() const override { return base_->kind(); }
  const std::filesystem::path& path() const override { return base_->path(); }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const boost::json::object& config() const override { return base_->config(); }
  const GgufMetadata& metadata() const override { return base_->metadata(); }
  std::string identity() const override { return base_->identity(); }

  const TensorView* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : found->second;
  }

  // Gathered tensors stay: there is no file to read them from again.
  void release(const TensorView& tensor) const override {
    base_->release(tensor);
    for (const auto& checkpoint : kept_) checkpoint->release(tensor);
  }

 private:
  std::shared_ptr<const Checkpoint> base_;
  std::vector<std::shared_ptr<const Checkpoint>> kept_;
  std::vector<GatheredTensor> gathered_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, const TensorView*> index_;  // borrows from tensors_
};

}  // namespace

std::shared_ptr<const Checkpoint> derive_checkpoint(std::shared_ptr<const Checkpoint> base,
                                                    const std::vector<std::string>& replaced,
                                                    std::vector<GatheredTensor> gathered,
                                                    std::vector<std::shared_ptr<const Checkpoint>> kept) {
  return std::make_shared<DerivedCheckpoint>(std::move(base), replaced, std::move(gathered), std::move(kept));
}

}  // namespace drafthorse
