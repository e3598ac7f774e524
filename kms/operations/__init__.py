"""Operations on a whole service: opening, backup, examination, rotation of key-encryption keys."""
