//! Which folders are symbolic links, as far as opens have said.

use std::collections::HashMap;

/// Where folders lead to that are links.
#[derive(Debug, Default)]
pub struct Links(HashMap<String, String>);

impl Links {
    /// Where a path leads to.
    pub fn leads(&self, path: String) -> String {
        let mut above = path.as_str();
        while let Some((folder, _)) = above.rsplit_once('/') {
            if let Some(leads) = self.0.get(folder) {
                return format!("{leads}{}", &path[folder.len()..]);
            }
            above = folder;
        }
        path
    }

    /// An open says where a path leads to. One of a folder says it of that folder alone. The same last name of a file
    /// in another folder: the folder is reached by a link.
    pub fn learn(&mut self, given: &str, leads: &str, is_folder: bool) {
        if is_folder && given != leads && given.starts_with('/') {
            self.0.insert(given.to_owned(), leads.to_owned());
            return;
        }
        let (Some((folder, name)), Some((there, its_name))) = (given.rsplit_once('/'), leads.rsplit_once('/')) else {
            return;
        };
        if folder == there {
            // It was the file alone that was a link, if anything: no folder above it is one.
            let mut above = given;
            while let Some((folder, _)) = above.rsplit_once('/') {
                self.0.remove(folder);
                above = folder;
            }
        } else if name == its_name && given.starts_with('/') && !folder.is_empty() && !there.is_empty() {
            self.0.insert(folder.to_owned(), there.to_owned());
        }
    }
}
