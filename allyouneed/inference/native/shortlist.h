// What may come next where every slot chooses among pieces of its own.
//
// The pieces of all slots stand side by side in the columns of one packed map, so that a step is
// still one product; bits say which of them a slot may choose. Nothing that one sentence may
// choose is open to another. A piece stays in its column until another needs it, so that only
// what is new in a sentence is copied when it comes in.
#pragma once
#include <vector>

#include "product.h"

constexpr int32_t NONE = -1;

template <class Number>
class Shortlist {
   public:
    // Every slot may choose the pieces in `always`; they keep the first columns.
    Shortlist(const Linear<Number>& vocabulary, int n_always, const int32_t* always)
        : vocabulary_(vocabulary), n_always_(n_always), column_of_(vocabulary.n_out, NONE) {
        columns_.resize(vocabulary.n_out, vocabulary.n_in);
        ids_.assign(columns_.n_panels * COLUMNS, NONE);
        n_users_.assign(ids_.size(), 0);
        always_.assign(n_words(), 0);
        for (int column = 0; column < n_always; ++column) {
            put(always[column], column);
            always_[column / COLUMNS] |= bit(column);
        }
        use_columns(n_always);
    }

    // So many slots, which may choose no more than what they always may.
    void clear(int n_slots) {
        for (int column = n_always_; column < (int)ids_.size(); ++column) evict(column);
        std::fill(n_users_.begin(), n_users_.end(), 0);
        columns_of_slot_.assign(n_slots, {});
        bits_.clear();
        for (int slot = 0; slot < n_slots; ++slot)
            bits_.insert(bits_.end(), always_.begin(), always_.end());
        use_columns(n_always_);
    }

    // Let a slot choose these pieces, none of them one of `always`, instead of those before.
    void offer(int slot, int n, const int32_t* ids) {
        release(slot);
        for (int i = 0; i < n; ++i)
            if (column_of_[ids[i]] != NONE) take(slot, column_of_[ids[i]]);
        int column = n_always_;
        for (int i = 0; i < n; ++i) {
            if (column_of_[ids[i]] != NONE) continue;
            while (n_users_[column]) ++column;
            put(ids[i], column);
            take(slot, column);
        }
        int n_columns = (int)ids_.size();
        while (n_columns > n_always_ && !n_users_[n_columns - 1]) --n_columns;
        use_columns(n_columns);
    }

    const Linear<Number>& columns() const { return columns_; }
    const int32_t* ids() const { return ids_.data(); }

    // Of a panel's outputs, leave those that the slot may choose; says whether there are any.
    bool keep_offered(int slot, int column, Floats* outputs, float otherwise) const {
        uint64_t offered = word(slot, column);
        if (!offered) return false;
        for (int s = 0; s < STRIPS; ++s, offered >>= LANES)
            outputs[s] = chosen((uint32_t)offered, outputs[s], otherwise);
        return true;
    }

   private:
    size_t n_words() const { return ids_.size() / COLUMNS; }  // a panel each
    uint64_t& word(int slot, int column) { return bits_[place(slot, column)]; }
    const uint64_t& word(int slot, int column) const { return bits_[place(slot, column)]; }
    size_t place(int slot, int column) const {
        return slot * n_words() + column / COLUMNS;
    }
    static uint64_t bit(int column) { return (uint64_t)1 << column % COLUMNS; }
    void use_columns(int n) { columns_.n_panels = rounded_up(n, COLUMNS) / COLUMNS; }

    void put(int32_t id, int column) {
        evict(column);
        columns_.copy_output(vocabulary_, id, column);
        ids_[column] = id;
        column_of_[id] = column;
    }
    void evict(int column) {
        if (ids_[column] != NONE) column_of_[ids_[column]] = NONE;
        ids_[column] = NONE;
    }
    void take(int slot, int column) {
        ++n_users_[column];
        word(slot, column) |= bit(column);
        columns_of_slot_[slot].push_back(column);
    }
    void release(int slot) {
        for (const int column : columns_of_slot_[slot]) {
            --n_users_[column];
            word(slot, column) &= ~bit(column);
        }
        columns_of_slot_[slot].clear();
    }

    const Linear<Number>& vocabulary_;
    Linear<Number> columns_;
    const int n_always_;
    std::vector<int32_t> ids_, column_of_;  // of columns, of pieces
    std::vector<int> n_users_;              // slots that may choose a column
    std::vector<std::vector<int>> columns_of_slot_;
    std::vector<uint64_t> always_, bits_;  // a word for each panel; the latter of each slot
};
